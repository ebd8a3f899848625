import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { ConfigError } from '@shardwise/core/extend';
import { rankProcessOptions } from '@shardwise/core/node';
import { withoutRankVariables } from '../environment/without-rank-variables.ts';
import { describeVerification } from './describe-verification.ts';
import { isRankRecord, type RankRecord } from './records.ts';
import { compareWithOne } from './verify.ts';
import { verifyVariable, type VerifyTask } from './verify-task.ts';

/** The parsed options of `shardwise verify`. */
export interface VerifyCommandOptions {
  /** The path of the script. */
  readonly script: string;
  readonly args: readonly string[];
  readonly nproc: number;
  readonly steps: number;
  readonly json: boolean;
}

/** The exit code if the runs differ. */
const DIFFERS = 1;

/**
 * Runs a script on `nproc` ranks and then on one, compares them, and prints what was found. Returns the exit code. Throws
 * ConfigError if the script fails, or makes no update.
 */
export async function verifyCommand(options: VerifyCommandOptions): Promise<number> {
  const { nproc, steps, json } = options;
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-verify-'));
  const run = (environments: readonly NodeJS.ProcessEnv[], name: string, one?: string) =>
    runScript(options, environments, (rank) => ({
      output: join(folder, `${name}-${rank}`),
      steps,
      ...(one === undefined ? {} : { one }),
    }));
  let runs = 0;
  try {
    const ranks = await run(await rankEnvironments(nproc), 'rank');
    const made = Math.min(...ranks.map(({ backwards }) => backwards.length), steps);
    const verification = await compareWithOne(ranks, Math.max(made, 1), async (one) => {
      const path = join(folder, `one-${runs++}`);
      await writeFile(path, serialize(one));
      const [record] = await run([withoutRankVariables(process.env)], `alone-${runs}`, path);
      if (record === undefined) throw new RangeError('no record of one rank');
      return record;
    });
    const lines = json
      ? [JSON.stringify(verification, undefined, 2)]
      : describeVerification(verification);
    process.stdout.write(`${lines.join('\n')}\n`);
    return verification.finding === null ? 0 : DIFFERS;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The variables of torchrun, by which the processes join each other over TCP of this host. */
async function rankEnvironments(size: number): Promise<readonly NodeJS.ProcessEnv[]> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  server.close();
  await once(server, 'close');
  const secret = randomBytes(24).toString('base64url');
  return Array.from({ length: size }, (_, rank) => ({
    ...withoutRankVariables(process.env),
    RANK: String(rank),
    LOCAL_RANK: String(rank),
    WORLD_SIZE: String(size),
    LOCAL_WORLD_SIZE: String(size),
    MASTER_ADDR: '127.0.0.1',
    MASTER_PORT: String(port),
    SHARDWISE_SECRET: secret,
  }));
}

/** Runs the script in one process for each environment, and returns what they recorded. */
async function runScript(
  { script, args }: VerifyCommandOptions,
  environments: readonly NodeJS.ProcessEnv[],
  taskOf: (rank: number) => VerifyTask,
): Promise<readonly RankRecord[]> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const preload = new URL(`./verified-process.${extension}`, import.meta.url).href;
  const children = environments.map((environment, rank) =>
    fork(script, [...args], {
      execArgv: [...rankProcessOptions, ...process.execArgv, '--import', preload],
      env: { ...environment, [verifyVariable]: JSON.stringify(taskOf(rank)) },
      silent: true,
    }),
  );
  try {
    await Promise.all(children.map((child, rank) => recorded(child, rank, children.length)));
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
  return Promise.all(children.map((_, rank) => readRecord(taskOf(rank).output, script)));
}

/** Resolves when a process has recorded its steps. Throws ConfigError with its last lines if it fails before. */
async function recorded(child: ChildProcess, rank: number, ranks: number): Promise<void> {
  let lines = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      lines = `${lines}${text}`.slice(-8000);
    });
  }
  const done = Promise.withResolvers<void>();
  child.on('message', () => done.resolve());
  child.on('error', done.reject);
  child.on('close', (code) => {
    if (code === 0) return done.resolve();
    const name = ranks === 1 ? 'the run of one rank' : `rank ${rank}`;
    done.reject(
      new ConfigError(
        {
          asked: `to verify ${ranks === 1 ? 'the script on one rank' : `the script on ${ranks} ranks`}`,
          found: `${name} ended with exit code ${code ?? 'none'}:\n${lines.trim()}\n`,
          todo: 'Run it with shardwise run first',
        },
        { rank, code },
      ),
    );
  });
  await done.promise;
}

async function readRecord(path: string, script: string): Promise<RankRecord> {
  const value: unknown = deserialize(await readFile(path));
  if (isRankRecord(value) && value.backwards.length > 0) return value;
  throw new ConfigError(
    {
      asked: `to verify ${script}`,
      found: isRankRecord(value)
        ? 'it ended without an update of an optimizer'
        : 'it ended without a model for parallelize()',
      todo: 'Verify a script that gives a model to dist.parallelize() and trains it',
    },
    { script },
  );
}
