import type { ChildProcess } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatShape } from '@shardwise/core/extend';
import { data, decodeSafetensors } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Ended } from './support/run-command.ts';
import { exampleScript, runShardwise } from './support/run-shardwise.ts';

// The tests run the example as its users do: in a process with ranks. The model is small enough for a test.

const tiny = [
  '--data',
  'text.txt',
  '--precision',
  'f32',
  '--layers',
  '1',
  '--heads',
  '2',
  '--channels',
  '32',
  '--context-length',
  '32',
];

const lines = Array.from(
  { length: 300 },
  (_, line) => `${line}. the quick brown fox jumps over ${(line * line) % 97} lazy dogs`,
);
const text = lines.join('\n');

let cwd = '';

beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-gpt-'));
  await writeFile(join(cwd, 'text.txt'), text);
});

afterAll(() => rm(cwd, { recursive: true, force: true }));

interface Train {
  readonly ranks?: number;
  readonly runDirectory: string;
  readonly resume?: string;
  /** Sends SIGINT once, as soon as stdout contains this text. */
  readonly interruptAt?: string;
  readonly options?: readonly string[];
}

function train({
  ranks = 2,
  runDirectory,
  resume,
  interruptAt,
  options = [],
}: Train): Promise<Ended> {
  const resumeArgs = resume === undefined ? [] : ['--resume', resume];
  const args = [
    'run',
    '--nproc',
    String(ranks),
    '--run-dir',
    runDirectory,
    ...resumeArgs,
    exampleScript,
    ...tiny,
    ...options,
  ];
  if (interruptAt === undefined) return runShardwise(args, { cwd });
  const when = { prints: interruptAt, act: (launcher: ChildProcess) => launcher.kill('SIGINT') };
  return runShardwise(args, { cwd, when });
}

const metricsSchema = z.object({
  step: z.number(),
  loss: z.number(),
  learningRate: z.number(),
  tokens: z.number(),
  validationLoss: z.number().optional(),
});

type Metrics = z.infer<typeof metricsSchema>;

/** Returns the metrics of each step of a run, without times. */
async function metricsOf(runDirectory: string): Promise<readonly Metrics[]> {
  const text = await readFile(join(cwd, runDirectory, 'metrics.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => metricsSchema.parse(JSON.parse(line)));
}

/** Exports the model of a run's last checkpoint as one file. */
async function exported(runDirectory: string): Promise<Buffer> {
  const file = `${runDirectory}.safetensors`;
  const { exitCode, output } = await runShardwise(['export', runDirectory, file], { cwd });
  expect(exitCode, output).toBe(0);
  return readFile(join(cwd, file));
}

/** Returns the entropy in nats: the sum of -p log p over the bytes that occur. */
function entropyOfBytes(bytes: Uint8Array): number {
  const counts = Map.groupBy(bytes, (byte) => byte);
  return counts
    .values()
    .reduce(
      (sum, { length }) => sum - (length / bytes.length) * Math.log(length / bytes.length),
      0,
    );
}

describe('the GPT example on two ranks', () => {
  let run: Ended;
  const options = [
    '--steps',
    '12',
    '--warmup-steps',
    '2',
    '--learning-rate',
    '0.01',
    '--validate-every',
    '6',
    '--sample-bytes',
    '40',
  ];

  beforeAll(async () => {
    run = await train({ runDirectory: 'whole', options });
  });

  it('ends well and says nothing on stderr', () => {
    expect(run.exitCode, run.output).toBe(0);
    expect(run.stderr).toBe('');
  });

  it('learns: the loss falls far from that of a guess among 256 bytes', async () => {
    const metrics = await metricsOf('whole');
    expect(metrics.map(({ step }) => step)).toEqual(
      Array.from({ length: 12 }, (_, index) => index + 1),
    );
    expect(metrics[0]?.loss).toBeGreaterThan(Math.log(256) - 0.3);
    expect(metrics.at(-1)?.loss).toBeLessThan(4.5);
    expect(metrics[5]?.validationLoss).toBeGreaterThan(metrics[11]?.validationLoss ?? Number.NaN);
  });

  it('prints the validation loss beside the entropy of single bytes, and a sample', () => {
    const [, validation = '', entropy = ''] =
      /validation loss ([\d.]+) nats a byte; unigram entropy of the text ([\d.]+)/.exec(
        run.stdout,
      ) ?? [];
    expect(Number(validation)).toBeLessThan(5);
    expect(entropy).toBe(
      entropyOfBytes(data.splitText(Buffer.from(text), 0.05).validation).toFixed(3),
    );
    expect(run.stdout).toMatch(/--- prompt\n[^]*--- generated\n[^]*\n---\n/);
  });

  it('leaves metrics, a report, a trace of both ranks and logs', async () => {
    expect((await readdir(join(cwd, 'whole'))).toSorted()).toEqual([
      'checkpoints',
      'live.json',
      'logs',
      'metrics.jsonl',
      'report.html',
      'trace.json',
    ]);
    const report = await readFile(join(cwd, 'whole', 'report.html'), 'utf8');
    expect(report).toContain('<!doctype html>');
    expect(report).toMatch(/unigram entropy \(nats\)/i);
    const trace = z
      .object({
        traceEvents: z.array(
          z.object({ pid: z.number(), tid: z.number().optional(), name: z.string() }),
        ),
      })
      .parse(JSON.parse(await readFile(join(cwd, 'whole', 'trace.json'), 'utf8')));
    expect(trace.traceEvents.filter(({ name }) => name === 'allReduce').length).toBeGreaterThan(1);
  });

  it("leaves a checkpoint that is exported to safetensors with PyTorch's names and shapes", async () => {
    const { tensors } = decodeSafetensors(await exported('whole'));
    expect(
      Object.fromEntries(
        Object.entries(tensors).map(([name, { dtype, shape }]) => [
          name,
          `${dtype} ${formatShape(shape)}`,
        ]),
      ),
    ).toEqual({
      'tokens.weight': 'f32 [256, 32]',
      'positions.weight': 'f32 [32, 32]',
      'blocks.0.norm1.weight': 'f32 [32]',
      'blocks.0.norm1.bias': 'f32 [32]',
      'blocks.0.attention.qkv.weight': 'f32 [96, 32]',
      'blocks.0.attention.qkv.bias': 'f32 [96]',
      'blocks.0.attention.projection.weight': 'f32 [32, 32]',
      'blocks.0.attention.projection.bias': 'f32 [32]',
      'blocks.0.norm2.weight': 'f32 [32]',
      'blocks.0.norm2.bias': 'f32 [32]',
      'blocks.0.up.weight': 'f32 [128, 32]',
      'blocks.0.up.bias': 'f32 [128]',
      'blocks.0.down.weight': 'f32 [32, 128]',
      'blocks.0.down.bias': 'f32 [32]',
      'norm.weight': 'f32 [32]',
      'norm.bias': 'f32 [32]',
      'head.weight': 'f32 [256, 32]',
    });
  });

  it('trains as one rank does on batches twice as large', async () => {
    const alone = await train({
      ranks: 1,
      runDirectory: 'alone',
      options: [...options, '--batch-size', '16'],
    });
    expect(alone.exitCode, alone.output).toBe(0);
    const [one, two] = [await metricsOf('alone'), await metricsOf('whole')];
    expect(one).toHaveLength(two.length);
    one.forEach(({ step, loss, tokens }, index) => {
      expect(tokens).toBe(two[index]?.tokens);
      expect(Math.abs(loss - (two[index]?.loss ?? Number.NaN)) / loss, `step ${step}`).toBeLessThan(
        1e-4,
      );
    });
  });
});

describe('the GPT example by another strategy', () => {
  const options = ['--steps', '4', '--warmup-steps', '2', '--sample-bytes', '2'];
  let alone: readonly Metrics[] = [];

  beforeAll(async () => {
    const run = await train({
      ranks: 1,
      runDirectory: 'by-none',
      options: [...options, '--strategy', 'none', '--batch-size', '16'],
    });
    expect(run.exitCode, run.output).toBe(0);
    alone = await metricsOf('by-none');
  });

  it.each([
    ['fsdp', ['--batch-size', '4', '--accumulate', '2', '--checkpointing', 'blocks']],
    ['tp', ['--batch-size', '8', '--accumulate', '2']],
    ['pp', ['--batch-size', '16', '--microbatches', '4']],
    ['cp', ['--batch-size', '8', '--accumulate', '2', '--checkpointing', 'blocks']],
    ['cp+fsdp', ['--batch-size', '16']],
  ])('%s trains as one rank does on the same batches', async (strategy, own) => {
    const run = await train({
      runDirectory: `by-${strategy}`,
      options: [...options, '--strategy', strategy, ...own],
    });
    expect(run.exitCode, run.output).toBe(0);
    const metrics = await metricsOf(`by-${strategy}`);
    expect(metrics).toHaveLength(4);
    metrics.forEach((own, index) => {
      const expected = alone[index];
      expect(own.tokens).toBe(expected?.tokens);
      expect(own.loss / (expected?.loss ?? Number.NaN)).toBeCloseTo(1, 4);
      // The size of a batch chooses the windows of the validation text.
      if (expected?.validationLoss === undefined || strategy !== 'pp') return;
      expect((own.validationLoss ?? Number.NaN) / expected.validationLoss).toBeCloseTo(1, 4);
    });
  });

  it('multiplies in bf16 and computes losses in f32, near those of f32', async () => {
    const run = await train({
      runDirectory: 'by-bf16',
      options: [...options, '--precision', 'bf16', '--batch-size', '8'],
    });
    expect(run.exitCode, run.output).toBe(0);
    const metrics = await metricsOf('by-bf16');
    metrics.forEach(({ loss }, index) => {
      expect(Math.abs(loss / (alone[index]?.loss ?? Number.NaN) - 1)).toBeLessThan(0.01);
    });
    // A loss in bf16 would have 8 bits.
    expect(metrics.some(({ loss }) => !Number.isInteger(loss * 2 ** 8))).toBe(true);
  });

  it('refuses two ranks without a strategy, which would train two models', async () => {
    const run = await train({
      runDirectory: 'apart',
      options: [...options, '--strategy', 'none'],
    });
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toMatch(/2 ranks that would each train a model of its own/);
  });
});

describe('a run that was interrupted', () => {
  // The run is longer than an epoch, so that it is also resumed in a later epoch than the first.
  const options = [
    '--steps',
    '80',
    '--warmup-steps',
    '10',
    '--validate-every',
    '10',
    '--checkpoint-every',
    '1000',
    '--sample-bytes',
    '10',
  ];
  const checkpointLine = /^Checkpoint: +(\S+step-(\d+))$/m;

  let whole: readonly Metrics[] = [];
  let first: Ended;

  beforeAll(async () => {
    const run = await train({
      runDirectory: 'uninterrupted',
      options: [...options, '--checkpoint-every', '10'],
    });
    expect(run.exitCode, run.output).toBe(0);
    whole = await metricsOf('uninterrupted');
    first = await train({ runDirectory: 'interrupted', interruptAt: 'step 1/80', options });
  });

  it('ends after a whole step with the exit code of SIGINT, and says where the checkpoint is and how to continue', async () => {
    expect(first.exitCode, first.output).toBe(130);
    expect(first.stderr).toContain('Stopping at the next shouldStop()');
    const [, folder = '', step = ''] = checkpointLine.exec(first.stdout) ?? [];
    expect(folder).toBe(join('interrupted', 'checkpoints', `step-${step}`));
    expect(Number(step)).toBeLessThan(80);
    expect(await metricsOf('interrupted')).toHaveLength(Number(step));
    expect(first.stdout).toContain(`shardwise run --nproc 2 --resume ${folder} ${exampleScript}`);
  });

  it('continues bit for bit, also when it is interrupted again', async () => {
    const again = await train({
      runDirectory: 'again',
      resume: 'interrupted',
      interruptAt: '/80  loss',
      options,
    });
    expect(again.exitCode, again.output).toBe(130);
    const rest = await train({
      runDirectory: 'rest',
      resume: join('again', 'checkpoints'),
      options,
    });
    expect(rest.exitCode, rest.output).toBe(0);

    const parts = [
      await metricsOf('interrupted'),
      await metricsOf('again'),
      await metricsOf('rest'),
    ];
    for (const part of parts) expect(part.length).toBeGreaterThan(0);
    expect(parts.flat()).toEqual(whole);
    const resumed = await exported('rest');
    expect(resumed.equals(await exported('uninterrupted'))).toBe(true);
  });

  it('continues on one rank with the losses that two had', async () => {
    const run = await train({
      ranks: 1,
      runDirectory: 'fewer',
      resume: join('uninterrupted', 'checkpoints', 'step-000010'),
      options: [...options, '--batch-size', '16'],
    });
    expect(run.exitCode, run.output).toBe(0);
    // The batches differ in the last windows of an epoch, because one rank divides them in another way than two ranks.
    const inEpoch = (await metricsOf('fewer')).slice(0, 10);
    expect(inEpoch.map(({ step }) => step)).toEqual(whole.slice(10, 20).map(({ step }) => step));
    for (const { step, loss } of inEpoch) {
      const expected = whole[step - 1]?.loss ?? Number.NaN;
      expect(Math.abs(loss - expected) / expected, `step ${step}`).toBeLessThan(1e-5);
    }
  });

  it.each([
    [
      'another model',
      2,
      ['--channels', '64'],
      /^(Rank \d failed first|All ranks failed): CheckpointError: to load \S+ into GPT: 17 different: tokens\.weight \(shape \[256, 32\], not \[256, 64\]\)/,
    ],
    [
      'batches of another size on another world',
      1,
      [],
      /^Rank 0 failed: ConfigError: to continue in .*: the state was saved with batchSize 8 on each of 2 ranks; this data loader has batchSize 8\. Use batchSize 16/,
    ],
  ] as const)('is not continued with %s', async (name, ranks, changed, message) => {
    const run = await train({
      ranks,
      runDirectory: name.replaceAll(' ', '-'),
      resume: 'interrupted',
      options: [...options, ...changed],
    });
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toMatch(message);
  });
});
