package lockpipe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: severities have names, also in JSON, and are in order.
func TestInspect_SeveritiesHaveNamesAndAnOrder(t *testing.T) {
	require.Equal(t, "info warning error", SeverityInfo.String()+" "+SeverityWarning.String()+" "+
		SeverityError.String())
	require.Equal(t, "Severity(3)", Severity(3).String())
	text, err := SeverityWarning.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "warning", string(text))
	require.Equal(t, SeverityInfo, Inspection(nil).Worst())
	require.Equal(t, SeverityError, Inspection{
		{Severity: SeverityError},
		{Severity: SeverityWarning},
	}.Worst())
}
