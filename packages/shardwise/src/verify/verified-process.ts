import { readFileSync, writeFileSync } from 'node:fs';
import { deserialize, serialize } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import { endWithParent } from '@shardwise/collectives/node';
import { Observation, type OneRank } from './observe.ts';
import { verifyVariable, taskSchema } from './verify-task.ts';

// This module is imported in a process that `shardwise verify` has started, before the script.

const { [verifyVariable]: task } = process.env;
if (isMainThread && task !== undefined) observe(task);

/** Observes the script of this process, writes what was recorded after the last step, and then waits for its end. */
function observe(text: string): void {
  // Processes that the script starts are no ranks.
  delete process.env[verifyVariable];
  endWithParent();
  const { output, steps, one: onePath } = taskSchema.parse(JSON.parse(text));
  const one: OneRank | null = onePath === undefined ? null : readOne(onePath);
  const observation = new Observation(one, (updates) => (updates < steps ? undefined : end()));
  const write = (): void => {
    const record = observation.record();
    observation.end();
    writeFileSync(output, serialize(record));
  };
  const end = (): Promise<void> => {
    process.off('exit', write);
    write();
    process.send?.('recorded');
    // Other ranks may still need this one, so the launcher ends them together.
    return new Promise(() => undefined);
  };
  process.on('exit', write);
}

/** Reads what the launcher has written. */
function readOne(path: string): OneRank {
  const value: unknown = deserialize(readFileSync(path));
  if (isOneRank(value)) return value;
  throw new TypeError(`${path} was not written by shardwise verify`);
}

function isOneRank(value: unknown): value is OneRank {
  if (typeof value !== 'object' || value === null) return false;
  return 'batch' in value && 'passes' in value && 'plan' in value && 'perturbation' in value;
}
