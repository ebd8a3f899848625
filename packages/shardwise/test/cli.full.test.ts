import { spawn, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeSafetensors } from '@shardwise/core';
import { beforeEach, describe, expect, it } from 'vitest';
import { commandText } from '../src/cli/command-text.ts';
import { commandVariables, commandWords } from '../../../test/support/shardwise-command.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';

const [program = '', ...words] = commandWords;
const train = join(import.meta.dirname, 'fixtures', 'train.ts');
const outcomes = join(import.meta.dirname, 'fixtures', 'outcomes.ts');

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-cli-'));
});

interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command. Calls `onOutput` with all of stdout so far whenever there is more. */
function shardwise(
  args: readonly string[],
  onOutput: (stdout: string, interrupt: () => void) => void = () => undefined,
): Promise<Ended> {
  const child = spawn(program, [...words, ...args], { cwd: directory, env: commandVariables() });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    onOutput(stdout, () => child.kill('SIGINT'));
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) => resolve({ exitCode, stdout, stderr }));
  });
}

describe('shardwise run', () => {
  it('trains on every rank and leaves metrics, report, trace, logs and checkpoint', async () => {
    const run = await shardwise(['run', '--nproc', '2', '--run-dir', 'out', train, '5']);
    expect(run.stderr).toBe('');
    expect(run.exitCode).toBe(0);
    expect(run.stdout).toContain('[rank 1] hello from another rank');
    expect(run.stdout).toMatch(/^step 5\/5 {2}loss 0\.8000 .* in \d+s$/m);
    expect(run.stdout).toContain(`Checkpoint: ${join('out', 'checkpoints', 'step-000005')}`);
    expect(run.stdout).toContain(`Report:     ${join('out', 'report.html')}`);

    const out = join(directory, 'out');
    expect((await readdir(out)).sort()).toEqual([
      'checkpoints',
      'live.json',
      'logs',
      'metrics.jsonl',
      'report.html',
      'trace.json',
    ]);
    const metrics = (await readFile(join(out, 'metrics.jsonl'), 'utf8')).trim().split('\n');
    expect(metrics.map((line): unknown => JSON.parse(line))).toMatchObject(
      [1, 2, 3, 4, 5].map((step) => ({ step, loss: 4 / step, tokens: 200 })),
    );
    const { model } = await loadCheckpoint(join(out, 'checkpoints'));
    const { bytes } = await model.read('weight');
    expect(new DataView(bytes.buffer).getFloat32(0, true)).toBe(15);
  });

  it('writes no escape codes where nobody looks at a terminal', async () => {
    const run = await shardwise(['run', train, '2']);
    expect(run.stdout + run.stderr).not.toContain('\u001B');
  });

  it('continues from a checkpoint with --resume', async () => {
    await shardwise(['run', '--nproc', '2', '--run-dir', 'first', train, '3']);
    const run = await shardwise([
      'run',
      '--nproc',
      '2',
      '--run-dir',
      'second',
      '--resume',
      'first/checkpoints',
      '--no-report',
      train,
      '5',
    ]);
    expect(run.stdout).toContain('continuing after step 3 with weight 9');
    expect((await loadCheckpoint(join(directory, 'second', 'checkpoints'))).step).toBe(5);
    expect(await readdir(join(directory, 'second'))).not.toContain('report.html');
  });

  it('continues the latest run that has a checkpoint with --resume latest', async () => {
    const runs = join(directory, 'runs');
    await shardwise(['run', '--nproc', '2', '--no-report', train, '3']);
    await shardwise(['run', '--nproc', '2', '--no-report', train, '4']);
    await mkdir(join(runs, 'fixtures-29991231-235959'), { recursive: true });
    await mkdir(join(runs, 'another-29991231-235959'));
    const run = await shardwise(['run', '--nproc', '2', '--resume', 'latest', train, '5']);
    expect(run.stderr).toBe('');
    expect(run.stdout).toContain('continuing after step 4 with weight 12');
  });

  it('says that it has trained nothing where the training had ended already', async () => {
    await shardwise(['run', '--nproc', '2', train, '3']);
    const again = await shardwise(['run', '--nproc', '2', '--resume', 'latest', train, '3']);
    expect(again.exitCode, again.stderr).toBe(0);
    expect(again.stdout).toMatch(/^Steps: +none, because the training had ended there/m);
  });

  it('says what it looked for where there is nothing that --resume latest could mean', async () => {
    const none = await shardwise(['run', '--resume', 'latest', train]);
    expect(none.exitCode).toBe(2);
    expect(none.stderr).toMatch(/^Continuing the latest run of \S+: no run of it in \S+runs\./);
    await mkdir(join(directory, 'runs', 'fixtures-20260101-000000-2'), { recursive: true });
    const empty = await shardwise(['run', '--resume', 'latest', train]);
    expect(empty.exitCode).toBe(2);
    expect(empty.stderr).toMatch(
      /no checkpoint in 1 run, runs.fixtures-20260101-000000-2 being the newest\. Name a checkpoint/,
    );
  });

  it('stops all ranks after one step at Ctrl-C, saves, and says how to continue', async () => {
    const args = ['run', '--nproc', '2', '--run-dir', 'out', train, '100000', '5'];
    let interrupted = false;
    const run = await shardwise(args, (stdout, interrupt) => {
      if (!interrupted && stdout.includes('step 1/')) {
        interrupted = true;
        interrupt();
      }
    });
    expect(run.exitCode).toBe(130);
    expect(run.stderr).toBe(
      'Stopping at the next shouldStop(); press Ctrl-C again to stop at once.\n',
    );
    const { step, directory: folder } = await loadCheckpoint(join(directory, 'out', 'checkpoints'));
    expect(run.stdout).toMatch(new RegExp(`^step ${step}/100000 `, 'm'));
    const name = folder.split('/').at(-1) ?? '';
    expect(run.stdout).toContain(
      `Continue:   npx shardwise run --nproc 2 --resume out/checkpoints/${name} ${train} 100000 5`,
    );
    const metrics = await readFile(join(directory, 'out', 'metrics.jsonl'), 'utf8');
    expect(metrics.trim().split('\n')).toHaveLength(step);
  });

  it('ends ranks that do not listen at the second Ctrl-C', async () => {
    let interrupts = 0;
    const run = await shardwise(
      ['run', '--nproc', '2', outcomes, 'never-ends'],
      (stdout, interrupt) => {
        if (interrupts === 0 && stdout.includes('rank 0 starts')) {
          interrupts = 2;
          interrupt();
          setTimeout(interrupt, 600);
        }
      },
    );
    expect(run.exitCode).toBe(130);
  });

  it("fails with the script's exit code, the failing rank first", async () => {
    const thrown = await shardwise(['run', '--nproc', '2', outcomes, 'throw']);
    expect(thrown.exitCode).toBe(1);
    expect(thrown.stderr).toContain('Rank 1 failed first: PlannedError: the plan failed\n    at ');
    expect((await shardwise(['run', '--nproc', '2', outcomes, 'exit'])).exitCode).toBe(3);
  });
});

describe('shardwise export', () => {
  it('writes the model of a run to one file, and says where', async () => {
    await shardwise(['run', '--nproc', '2', '--run-dir', 'out', train, '2']);
    const run = await shardwise(['export', 'out', 'model.safetensors']);
    expect(run).toEqual({ exitCode: 0, stdout: 'Model: model.safetensors\n', stderr: '' });
    const { tensors } = decodeSafetensors(await readFile(join(directory, 'model.safetensors')));
    expect(tensors['weight']?.shape).toEqual([4]);
  });

  it('says so where there is no checkpoint', async () => {
    const run = await shardwise(['export', 'absent', 'model.safetensors']);
    expect(run.exitCode).toBe(2);
    expect(run.stderr).toMatch(/^Loading a checkpoint from absent: there is no state.json/);
  });
});

describe('a command line that cannot be run', () => {
  it.each([
    [['run', '--nproc', '0', train], /--nproc <count>' argument '0' is invalid/],
    [
      ['run', '--nproc', 'two', train],
      /argument 'two' is invalid. It must be a whole number from 1/,
    ],
    [['run', '--nproc', '99999', train], /99999 ranks: it holds 1 to \d+/],
    [['run', 'absent.ts'], /^Running absent.ts: no such file in .*\. Give the path of a/],
    [['run', '.'], /^Running \.: it is no file/],
    [['run', '--frobnicate', train], /unknown option '--frobnicate'. See `shardwise run --help`/],
    [['run'], /missing required argument 'script'/],
    [['fly'], /unknown command 'fly'/],
    [['run', '--resume', 'absent', train], /there is no state.json/],
  ])('%j says so in one line, exit code 2', async (args, message) => {
    const run = await shardwise(args);
    expect(run.exitCode).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(run.stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(run.stdout).toBe('');
    expect(await readdir(directory)).toEqual([]);
  });

  it('does not write into the directory of another run', async () => {
    await shardwise(['run', '--run-dir', 'out', train, '1']);
    const again = await shardwise(['run', '--run-dir', 'out', train, '1']);
    expect(again.exitCode).toBe(2);
    expect(again.stderr).toMatch(/it holds a run already. Give another one with --run-dir/);
  });
});

describe('the rest of the command', () => {
  it.each([
    [undefined, '128'],
    ['16', '16'],
  ])('gives rank threads a pool for all: of %s threads, %s', async (asked, expected) => {
    const sees = 'process.on("exit", () => console.log(process.env.UV_THREADPOOL_SIZE))';
    const command = join(import.meta.dirname, '..', 'bin', 'shardwise.js');
    const { UV_THREADPOOL_SIZE: _, ...environment } = process.env;
    // The hook prints the variable before the process ends, whether or not the command has been built.
    const { stdout } = spawnSync(
      process.execPath,
      ['--import', `data:text/javascript,${encodeURIComponent(sees)}`, command, '--version'],
      {
        env: asked === undefined ? environment : { ...environment, UV_THREADPOOL_SIZE: asked },
        encoding: 'utf8',
      },
    );
    expect(stdout.trim().split('\n').at(-1)).toBe(expected);
  });

  it('has a version and help', async () => {
    expect((await shardwise(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const help = await shardwise(['run', '--help']);
    expect(help.stdout).toContain('--nproc <count>');
    expect(help.exitCode).toBe(0);
    const commands = await shardwise(['--help']);
    for (const line of `${help.stdout}${commands.stdout}`.split('\n')) {
      expect(line.length, line).toBeLessThanOrEqual(80);
    }
  });

  it('names its options that stand after the script, because the script gets them', async () => {
    const run = await shardwise(['run', 'none.ts', '--epochs', '2', '--nproc', '2', '--ranks=x']);
    expect(run.stderr).toMatch(
      /^--nproc, --ranks are passed to none\.ts, not to shardwise run\. Options of shardwise run go before the script\.\nRunning none\.ts: no such file/,
    );
    const plain = await shardwise(['run', '--nproc', '2', 'none.ts', '--epochs', '2']);
    expect(plain.stderr).toMatch(/^Running none\.ts: no such file/);
  });

  it('suggests the option that a misspelt one is like, in the same line', async () => {
    const { stderr, exitCode } = await shardwise(['run', '--nprocs', '2', 'none.ts']);
    expect(stderr).toMatch(/^[^\n]*unknown option '--nprocs' \(Did you mean --nproc\?\)[^\n]*\n$/);
    expect(exitCode).toBe(2);
  });

  it('writes a command as it is typed', () => {
    const options = {
      script: "it's.ts",
      args: ['--text', 'a b', '--lr=1e-3'],
      nproc: 2,
      minNproc: undefined,
      device: 'wasm',
      servers: undefined,
      serverReplicas: undefined,
      snapshotEveryMs: 2500,
      workerRestarts: undefined,
      transport: './my transport.ts',
      transportTimeoutMs: 1500,
      ranks: 'processes',
      nodes: { min: 1, max: 4 },
      nodeRank: undefined,
      rendezvous: { host: '::1', port: 29_400 },
      jobId: undefined,
      maxRestarts: 3,
      secretFile: undefined,
      joinTimeoutMs: undefined,
      lastCallMs: 500,
      runDirectory: undefined,
      checkpointDirectory: undefined,
      resumeDirectory: 'runs/x',
      metrics: ['csv', './my sink.ts'],
      report: false,
      plain: true,
    } as const;
    expect(commandText(options)).toBe(
      `shardwise run --nnodes 1:4 --nproc 2 --device wasm --server-snapshots 2.5 --rdzv '[::1]:29400' --last-call 0.5 --transport './my transport.ts' --transport-timeout 1.5 --ranks processes ` +
        `--max-restarts 3 --resume runs/x --metrics csv --metrics './my sink.ts' --no-report --plain 'it'\\''s.ts' --text 'a b' --lr=1e-3`,
    );
  });
});
