// Uses redlock for one caller, who writes a request a line to stdin and reads an answer a line from stdout:
//
//   node redlock.js PACKAGE URL...
//
// A request is {op, key, ttl}, where op is try, wait, extend or release. An answer is {value, until}, or {refused} with the reason. An error
// that is no refusal ends the process: redlock distinguishes the two only by its events.
'use strict';

const readline = require('node:readline');
const { setTimeout: pause } = require('node:timers/promises');
const { Redis } = require('ioredis');

const [name, ...urls] = process.argv.slice(2);
const exported = require(name);
const Redlock = exported.default ?? exported; // 5 is a module with a default, 4 a function

const fatal = (error) => {
  console.error(error);
  process.exit(1);
};

const clients = urls.map((url) => new Redis(url).on('error', fatal));
const redlock = new Redlock(clients, { retryCount: 0 });
redlock.on('clientError', fatal); // of 4
redlock.on('error', (error) => error.name === 'ResourceLockedError' || fatal(error)); // of 5

const locks = new Map(); // by key

// settled waits for the masters that 5 does not wait for, as it answers with the majority: each answers in the order of the requests.
const settled = () => Promise.all(clients.map((client) => client.ping()));

const ops = {
  async try({ key, ttl }) {
    const lock = await redlock.acquire([key], ttl);
    locks.set(key, lock);
    return { value: lock.value, until: lock.expiration };
  },

  // Not by retryCount: 5 keeps what it has got of a failed attempt until the last one has failed, so that two who wait may block each other.
  async wait(request) {
    for (;;) {
      try {
        return await ops.try(request);
      } catch (error) {
        if (!refusals.has(error.name)) throw error;
        await pause(5 + 25 * Math.random());
      }
    }
  },

  async extend({ key, ttl }) {
    const lock = await redlock.extend(locks.get(key), ttl);
    locks.set(key, lock);
    return { value: lock.value, until: lock.expiration };
  },

  async release({ key }) {
    await redlock.release(locks.get(key));
    return {};
  },
};

const refusals = new Set(['LockError', 'ExecutionError']); // of 4 and of 5

async function answer(request) {
  try {
    return await ops[request.op](request);
  } catch (error) {
    if (!refusals.has(error.name)) throw error;
    return { refused: error.message };
  } finally {
    await settled();
  }
}

async function main() {
  // Otherwise a script that a master does not know yet is sent a second time, and the release of a failed attempt may overtake it.
  for (const { value } of Object.values(redlock.scripts)) {
    await Promise.all(clients.map((client) => client.script('LOAD', value)));
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  }
  await redlock.quit();
}

main().catch(fatal);
