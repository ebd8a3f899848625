import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RankFailure, type RankMessage, type RankOutcome } from '@shardwise/testing/ranks';
import { type MpiLauncher } from '@shardwise/testing/node';
import { FrameReader, sendFrame } from './mpi-frames.ts';

const START_MS = 50_000;
const ANSWER_MS = 55_000;

export interface MpiTask {
  readonly moduleUrl: string;
  readonly name: string;
  readonly data: unknown;
}

/** Ranks that mpiexec has started. They run one task after another, each with a new group. */
export class MpiPool {
  readonly #launcher: MpiLauncher;
  readonly #jobs = new Map<number, Promise<Job>>();

  constructor(launcher: MpiLauncher) {
    this.#launcher = launcher;
  }

  /** Makes each of `size` ranks call the function with its group and `data`. */
  async run(
    size: number,
    moduleUrl: URL,
    { name, data }: { readonly name: string; readonly data: unknown },
  ): Promise<readonly RankOutcome[]> {
    const started = this.#jobs.get(size) ?? Job.start(this.#launcher, size);
    this.#jobs.set(size, started);
    const job = await started;
    const outcomes = await job.run({ moduleUrl: moduleUrl.href, name, data });
    if (job.hasEnded) this.#jobs.delete(size);
    return outcomes;
  }

  async end(): Promise<void> {
    const jobs = await Promise.all(this.#jobs.values());
    this.#jobs.clear();
    await Promise.all(jobs.map((job) => job.end()));
  }
}

class Job {
  readonly #process: ChildProcess;
  readonly #server: Server;
  readonly #folder: string;
  readonly #sockets: Socket[] = [];
  readonly #answers: ((answer: RankMessage) => void)[] = [];
  #output = '';
  hasEnded = false;

  private constructor(process: ChildProcess, server: Server, folder: string) {
    this.#process = process;
    this.#server = server;
    this.#folder = folder;
  }

  static async start(launcher: MpiLauncher, size: number): Promise<Job> {
    const folder = mkdtempSync(join(tmpdir(), 'shardwise-mpi-'));
    const path = join(folder, 'socket');
    const server = createServer();
    server.listen(path);
    await once(server, 'listening');
    const rank = new URL('./mpi-pool-rank.ts', import.meta.url).pathname;
    const child = spawn(
      launcher.command,
      [...launcher.argumentsFor(size), process.execPath, rank, path],
      {
        env: { ...process.env, ...launcher.environment },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    const job = new Job(child, server, folder);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        job.#output += text;
      });
    }
    await job.#awaitRanks(size);
    return job;
  }

  async run(task: MpiTask): Promise<readonly RankOutcome[]> {
    const limit = setTimeout(() => this.#process.kill('SIGKILL'), ANSWER_MS);
    const answers = this.#sockets.map(
      (_, rank) =>
        new Promise<RankMessage>((resolve) => {
          this.#answers[rank] = resolve;
        }),
    );
    for (const socket of this.#sockets) sendFrame(socket, task);
    const outcomes = await Promise.all(answers);
    clearTimeout(limit);
    return outcomes.map((answer, rank) =>
      answer.status === 'fulfilled'
        ? answer
        : { status: 'rejected', error: new RankFailure(rank, answer.report) },
    );
  }

  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#process;
    const exit = exitCode === null && signalCode === null ? once(this.#process, 'exit') : undefined;
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await exit;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #awaitRanks(size: number): Promise<void> {
    const all = Promise.withResolvers<void>();
    const limit = setTimeout(() => {
      this.#process.kill('SIGKILL');
      all.reject(new Error(`The ranks did not come within ${START_MS} ms: ${this.#output}`));
    }, START_MS);
    this.#process.once('exit', (code, signal) => {
      all.reject(new Error(`mpiexec ended with ${signal ?? code}: ${this.#output}`));
      this.#onExit(signal ?? `code ${code}`);
    });
    let count = 0;
    this.#server.on('connection', (socket) => {
      const frames = new FrameReader(socket);
      // A rank first sends its number, and then the outcome of each task.
      frames.once('frame', (rank: number) => {
        this.#sockets[rank] = socket;
        frames.on('frame', (answer: RankMessage) => this.#answers[rank]?.(answer));
        count += 1;
        if (count === size) all.resolve();
      });
      socket.on('error', () => {});
    });
    try {
      await all.promise;
    } finally {
      clearTimeout(limit);
    }
  }

  #onExit(how: string): void {
    this.hasEnded = true;
    const message = `mpiexec ended with ${how}: ${this.#output}`;
    const report = { name: 'Error', message, stack: undefined, code: undefined, fields: {} };
    for (const answer of this.#answers) answer({ status: 'rejected', report });
  }
}
