import { parentPort } from 'node:worker_threads';
import { reportOf, type RankMessage, type RankTask } from '@shardwise/testing/ranks';

// A process or thread of a pool. It calls the function that it is told to and answers how the call ended.

if (parentPort === null) process.on('message', (task: RankTask) => void answer(task));
else parentPort.on('message', (task: RankTask) => void answer(task));

async function answer(task: RankTask): Promise<void> {
  const outcome = await outcomeOf(task);
  if (parentPort === null) process.send?.(outcome);
  else parentPort.postMessage(outcome);
}

async function outcomeOf({ moduleUrl, name, context }: RankTask): Promise<RankMessage> {
  try {
    const module: Readonly<Record<string, unknown>> = await import(moduleUrl);
    const main = module[name];
    if (typeof main !== 'function') throw new TypeError(`${moduleUrl} exports no ${name}`);
    return { status: 'fulfilled', value: await main(context) };
  } catch (error) {
    return { status: 'rejected', report: reportOf(error) };
  }
}
