import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { closeShmWorld, createShmWorld, startStoreServer } from '@shardwise/collectives/node';
import { z } from 'zod';
import type { Contestant, Job } from './job.ts';
import { AS_ROOT, MPIRUN_FLAGS } from './mpirun.ts';
import { RANK_VARIABLE, TASK_VARIABLE, type RankTask } from './process-task.ts';
import { MAX_BYTES } from './rank-work.ts';

const SCRIPT = new URL('./process-rank.ts', import.meta.url).pathname;
const COMMAND = [process.execPath, '--conditions=@shardwise/source', SCRIPT];
const SECRET = 'the secret of a benchmark';
const answerSchema = z.object({ seconds: z.number() });

/** Starts processes that map the same memory, in which their buffers lie. */
export function startShmRanks(size: number): Promise<Contestant> {
  const world = createShmWorld({ size, arenaBytes: 2 * MAX_BYTES + 65536 });
  const release = (): void => closeShmWorld(world);
  return startRanks({ name: 'shm', size, task: { kind: 'shm', world }, release, launch: each });
}

/** Starts processes that talk over sockets: by the tcp transport, or by the plain streams that are its limit. */
export async function startSocketRanks(
  name: string,
  kind: 'tcp' | 'stream',
  size: number,
): Promise<Contestant> {
  const server = await startStoreServer({ secret: SECRET });
  const task = { kind, size, port: server.port, secret: SECRET } as const;
  return startRanks({ name, size, task, release: () => server.close(), launch: each });
}

/** Starts processes by Open MPI's mpirun. */
export function startMpiRanks(size: number): Promise<Contestant> {
  const release = (): void => {};
  return startRanks({ name: 'mpi', size, task: { kind: 'mpi' }, release, launch: mpirun });
}

interface RanksOptions {
  readonly name: string;
  readonly size: number;
  readonly task: RankTask;
  readonly release: () => void;
  /** Starts the processes. */
  readonly launch: (size: number, env: NodeJS.ProcessEnv) => readonly ChildProcess[];
}

/** The connection of the benchmark with a rank. */
interface RankLine {
  readonly socket: Socket;
  readonly lines: AsyncIterator<string>;
}

async function startRanks(options: RanksOptions): Promise<Contestant> {
  const { name, size, task, release, launch } = options;
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-bench-'));
  const controlPath = join(folder, 'control');
  const server = createServer().listen(controlPath);
  await once(server, 'listening');
  const connected = acceptRanks(server, size);
  const env = { ...process.env, [TASK_VARIABLE]: JSON.stringify({ controlPath, task }) };
  const children = launch(size, env);
  const exits = children.map((child) => once(child, 'exit'));
  const ended = firstEnd(name, exits);
  const ranks = await Promise.race([connected, ended]);
  return {
    name,
    run: async (job) => {
      const answers = Promise.all(ranks.map((rank) => ask(rank, job)));
      return Math.max(...(await Promise.race([answers, ended])));
    },
    close: async () => {
      for (const { socket } of ranks) socket.end();
      await ended.catch(() => {});
      await Promise.all(exits);
      server.close();
      release();
      await rm(folder, { recursive: true });
    },
  };
}

/** Starts a process for each rank, which learns its rank from its environment. */
function each(size: number, env: NodeJS.ProcessEnv): readonly ChildProcess[] {
  return Array.from({ length: size }, (_, rank) =>
    start(COMMAND, { ...env, [RANK_VARIABLE]: String(rank) }),
  );
}

function mpirun(size: number, env: NodeJS.ProcessEnv): readonly ChildProcess[] {
  return [
    start(['mpirun', '-n', String(size), ...MPIRUN_FLAGS, ...COMMAND], { ...env, ...AS_ROOT }),
  ];
}

function start([file = '', ...args]: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(file, args, { stdio: ['ignore', 'inherit', 'inherit'], env });
}

async function acceptRanks(server: Server, size: number): Promise<readonly RankLine[]> {
  const ranks: RankLine[] = [];
  server.on('connection', (socket) => {
    ranks.push({ socket, lines: createInterface({ input: socket })[Symbol.asyncIterator]() });
    if (ranks.length === size) server.emit('complete');
  });
  await once(server, 'complete');
  return ranks;
}

/** Rejects when the first process ends, because none may end before it is told to. */
async function firstEnd(
  name: string,
  exits: readonly Promise<readonly unknown[]>[],
): Promise<never> {
  const [code, signal] = await Promise.race(exits);
  throw new Error(`A rank of ${name} ended with ${String(signal ?? code)}`);
}

async function ask({ socket, lines }: RankLine, job: Job): Promise<number> {
  socket.write(`${JSON.stringify(job)}\n`);
  const { value, done } = await lines.next();
  if (done === true || value === undefined) throw new Error('A rank ended before it answered');
  return answerSchema.parse(JSON.parse(value)).seconds;
}
