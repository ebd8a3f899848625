import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import { rankResourceLimits } from '@shardwise/core/node';
import { parseRankMessage } from '../../run-state/run-message.ts';
import { parseMemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { RankHandle, RankOutcome, RankStart } from '../ranks/rank-handle.ts';
import { RankLog } from '../ranks/rank-log.ts';

/** One rank as a worker thread of this process. */
export class RankWorker implements RankHandle {
  readonly outcome: Promise<RankOutcome>;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  #terminated = false;

  constructor(start: RankStart) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    // The worker inherits the options of this process, such as import conditions.
    this.#worker = new Worker(pathToFileURL(start.script), {
      argv: [...start.args],
      env: start.environment,
      resourceLimits: rankResourceLimits,
      name: `rank ${start.data.rank}`,
      stdout: true,
      stderr: true,
      // The port carries RankMessages to the launcher, and LauncherOrders to the rank.
      workerData: { ...start.data, port: port2 },
      transferList: [port2],
    });
    port1.on('message', (value: unknown) => {
      const message = parseRankMessage(value);
      if (message?.rank === start.data.rank) start.onMessage(message);
      const member = start.onMember && parseMemberMessage(value);
      if (member !== undefined) start.onMember?.(member);
    });
    // The end of the rank closes the port, after its last message.
    const messages = once(port1, 'close');
    this.outcome = this.#run(start, messages);
  }

  order(order: LauncherOrder): void {
    this.#port.postMessage(order);
  }

  async terminate(): Promise<void> {
    this.#terminated = true;
    await this.#worker.terminate();
  }

  async #run(
    { data: { rank }, logPath, onLine, onEnd }: RankStart,
    messages: Promise<unknown>,
  ): Promise<RankOutcome> {
    const { stdout, stderr } = this.#worker;
    const log = new RankLog(logPath, { stdout, stderr }, onLine);
    let error: unknown;
    this.#worker.on('error', (thrown: unknown) => {
      error = thrown;
    });
    const exitCode = await new Promise<number>((resolve) => {
      this.#worker.once('exit', resolve);
    });
    const end = { exitCode, error, terminated: this.#terminated };
    onEnd(end);
    await messages;
    return { rank, ...end, ...(await log.close()) };
  }
}
