import { parentPort, workerData } from 'node:worker_threads';
import { reportOf } from './rank-failure.ts';
import type { RankMessage, RankTask } from './rank-task.ts';

const task: RankTask = workerData;

function post(message: RankMessage): void {
  parentPort?.postMessage(message);
}

try {
  const module: Readonly<Record<string, unknown>> = await import(task.moduleUrl);
  const main = module[task.name];
  if (typeof main !== 'function') {
    throw new TypeError(`${task.moduleUrl} exports no function ${task.name}`);
  }
  post({ status: 'fulfilled', value: await main(task.context) });
} catch (error) {
  post({ status: 'rejected', report: reportOf(error) });
}
