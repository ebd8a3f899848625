import { once } from 'node:events';
import { pathToFileURL } from 'node:url';
import { MessageChannel, Worker } from 'node:worker_threads';
import type { Readable } from 'node:stream';
import { parseRankMessage, type RankMessage } from '../run-state/message.ts';
import type { OutputStream } from '../terminal/run-output.ts';
import { LineSplitter } from './line-splitter.ts';
import { LogFile } from './log-file.ts';
import type { RankData } from './rank-data.ts';

/** How a rank ended. */
export interface RankOutcome {
  readonly rank: number;
  readonly exitCode: number;
  /** What it threw, where it threw. */
  readonly error: unknown;
  /** Ended by the launcher, because of another rank or at the user's wish. */
  readonly terminated: boolean;
  readonly logPath: string;
  readonly lastLines: readonly string[];
}

export interface RankWorkerOptions {
  readonly script: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  readonly logPath: string;
  readonly data: Omit<RankData, 'port'>;
  readonly onMessage: (message: RankMessage) => void;
  readonly onLine: (line: string, stream: OutputStream) => void;
  /** The moment the rank is gone; its last output may still be under way. */
  readonly onEnd: (outcome: Pick<RankOutcome, 'exitCode' | 'error' | 'terminated'>) => void;
}

/** One rank as a worker thread of this process. */
export class RankWorker {
  /** Settles when the rank is gone and all it wrote is in its log. */
  readonly outcome: Promise<RankOutcome>;
  readonly #worker: Worker;
  #terminated = false;

  constructor(options: RankWorkerOptions) {
    const { port1, port2 } = new MessageChannel();
    // Options of this process, such as import conditions, are inherited.
    this.#worker = new Worker(pathToFileURL(options.script), {
      argv: [...options.args],
      env: options.environment,
      name: `rank ${options.data.rank}`,
      stdout: true,
      stderr: true,
      workerData: { ...options.data, port: port2 },
      transferList: [port2],
    });
    port1.on('message', (value: unknown) => {
      const message = parseRankMessage(value);
      if (message?.rank === options.data.rank) options.onMessage(message);
    });
    // Closed by the rank's end, after its last message.
    const messages = once(port1, 'close');
    this.outcome = this.#run(options, messages);
  }

  /** Ends the rank wherever it is. */
  async terminate(): Promise<void> {
    this.#terminated = true;
    await this.#worker.terminate();
  }

  async #run(
    { data: { rank }, logPath, onLine, onEnd }: RankWorkerOptions,
    messages: Promise<unknown>,
  ): Promise<RankOutcome> {
    const log = new LogFile(logPath);
    const follow = (stream: Readable, name: OutputStream): Promise<unknown> => {
      const lines = new LineSplitter((line) => {
        log.write(line);
        onLine(line, name);
      });
      stream.setEncoding('utf8');
      stream.on('data', (text: string) => lines.write(text));
      return once(stream, 'end').then(() => lines.end());
    };
    const output = [follow(this.#worker.stdout, 'stdout'), follow(this.#worker.stderr, 'stderr')];
    let error: unknown;
    this.#worker.on('error', (thrown: unknown) => {
      error = thrown;
    });
    const exitCode = await new Promise<number>((resolve) => {
      this.#worker.once('exit', resolve);
    });
    const end = { exitCode, error, terminated: this.#terminated };
    onEnd(end);
    await Promise.all([...output, messages]);
    await log.close();
    return { rank, ...end, logPath, lastLines: log.lastLines };
  }
}
