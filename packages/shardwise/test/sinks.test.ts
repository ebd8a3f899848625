import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { initialRunState, reduceRun, type RunState } from '../src/run-state/run-state.ts';
import { loadSinks } from '../src/sinks/load-sinks.ts';
import type { MetricSink, StepFigures } from '../src/sinks/metric-sink.ts';
import { prometheusText } from '../src/sinks/prometheus-text.ts';
import { ones } from '../src/index.ts';
import { SummaryWriter } from '../src/sinks/summary-writer.ts';
import { SinkQueue } from '../src/sinks/sink-queue.ts';
import {
  crc32c,
  encodeRecord,
  scalarEvent,
  versionEvent,
} from '../src/sinks/tensorboard-events.ts';

/** What tools/golden-tensorboard.py has recorded. TensorBoard has read the file back. */
const golden = z
  .object({
    file: z.string(),
    steps: z.array(
      z.object({
        step: z.number(),
        endMs: z.number(),
        figures: z.record(z.string(), z.union([z.number(), z.string()])),
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(join(import.meta.dirname, 'golden', 'tensorboard.json'), 'utf8')));

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const hex = (data: Uint8Array): string => Buffer.from(data).toString('hex');

describe('event files of TensorBoard', () => {
  it('have the checksums of Castagnoli', () => {
    expect(crc32c(bytes('123456789'))).toBe(0xe3069283);
  });

  it('have the records that TensorBoard writes', () => {
    expect(hex(encodeRecord(bytes('')))).toBe('000000000000000029039807d8ea82a2');
    expect(hex(encodeRecord(bytes('abc')))).toBe('0300000000000000b099490e6162636e57f121');
    expect(hex(encodeRecord(versionEvent(1)))).toBe(
      '1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a',
    );
    expect(hex(encodeRecord(scalarEvent(2, 7, { loss: 0.5 })))).toBe(
      '1a00000000000000129bd82d09000000000000004010072a0d0a0b0a046c6f7373150000003fc33fc24a',
    );
  });

  it('number steps from 128 in several bytes, and leave out step 0', () => {
    expect(hex(scalarEvent(0, 300, {}))).toBe(`09${'00'.repeat(8)}10ac022a00`);
    expect(hex(scalarEvent(0, 0, {}))).toBe(`09${'00'.repeat(8)}2a00`);
  });
});

describe('a SummaryWriter', () => {
  let logDir = '';
  beforeEach(async () => {
    logDir = join(await mkdtemp(join(tmpdir(), 'writer-')), 'runs', 'first');
  });

  it('makes the folder and one event file, with the first scalar', async () => {
    const writer = new SummaryWriter({ logDir });
    await writer.addScalar('Train/loss', 0.5, 7);
    await writer.addScalar('Train/loss', Number.NaN, 8);
    const [name = '', ...others] = await readdir(logDir);
    expect(others).toEqual([]);
    const event = hex(await readFile(join(logDir, name))).slice(2 * 40);
    // The times of the events differ.
    expect(event.replaceAll(/09[0-9a-f]{16}(?=10)/g, 'time ')).toContain(
      `time 10072a130a110a0a${hex(bytes('Train/loss'))}150000003f`,
    );
    expect(event.split(hex(bytes('Train/loss')))).toHaveLength(3);
  });

  it('has a file of its own beside that of another writer', async () => {
    for (const writer of [new SummaryWriter({ logDir }), new SummaryWriter({ logDir })]) {
      await writer.addScalar('loss', 1, 0);
    }
    expect(await readdir(logDir)).toHaveLength(2);
  });

  it('refuses a tensor in the place of its number', async () => {
    const writer = new SummaryWriter({ logDir });
    // @ts-expect-error: a tensor is no number.
    const asked = writer.addScalar('loss', ones([]), 1);
    await expect(asked).rejects.toThrow(/await loss\.item\(\)/);
  });
});

describe('the text of Prometheus', () => {
  it('has each name once, with all its samples, and escapes labels', () => {
    const figures = { 'accuracy/train': 0.5, 'accuracy/test': Infinity, loss: Number.NaN };
    expect(prometheusText('a"b', { step: 3, endMs: 0, figures })).toBe(
      [
        '# HELP shardwise_step The last value that the run has reported.',
        '# TYPE shardwise_step gauge',
        'shardwise_step{run="a\\"b",metric="step"} 3',
        '# HELP shardwise_accuracy_train The last value that the run has reported.',
        '# TYPE shardwise_accuracy_train gauge',
        'shardwise_accuracy_train{run="a\\"b",metric="accuracy/train"} 0.5',
        '# HELP shardwise_accuracy_test The last value that the run has reported.',
        '# TYPE shardwise_accuracy_test gauge',
        'shardwise_accuracy_test{run="a\\"b",metric="accuracy/test"} +Inf',
        '# HELP shardwise_loss The last value that the run has reported.',
        '# TYPE shardwise_loss gauge',
        'shardwise_loss{run="a\\"b",metric="loss"} NaN',
        '',
      ].join('\n'),
    );
  });

  it('groups figures whose names differ in other characters only', () => {
    const text = prometheusText('run', { step: 1, endMs: 0, figures: { 'a/b': 1, 'a:b': 2 } });
    expect(text.match(/# TYPE shardwise_a_b gauge/g)).toHaveLength(1);
    expect(text).toContain('metric="a/b"} 1\nshardwise_a_b{run="run",metric="a:b"} 2\n');
  });
});

describe('the sinks of a run', () => {
  let directory = '';
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'sinks-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const stateAfter = (state: RunState | undefined, step: number): RunState => {
    const before =
      state ?? initialRunState({ script: 's', worldSize: 1, startMs: 0, engine: 'test' });
    const times = { computeMs: 1, communicationMs: 0, dataMs: 0, graphMs: 0 };
    const metrics = { 'a,b': 2 };
    const report = { rank: 0, step, loss: 0.5, metrics, endMs: 1000 * step, stepMs: 2, ...times };
    return reduceRun(before, { kind: 'step', ...report });
  };

  async function give(names: readonly string[], told: string[] = []): Promise<void> {
    const sinks = await loadSinks(names);
    const tell = (text: string): void => void told.push(text);
    const queue = new SinkQueue(
      sinks.map((open) => open(directory, tell)),
      tell,
    );
    const first = stateAfter(undefined, 1);
    queue.update(first);
    queue.update(first);
    queue.update(stateAfter(first, 2));
    await queue.close();
  }

  it('write each step once', async () => {
    await give(['csv', 'prometheus', 'tensorboard']);
    const csv = await readFile(join(directory, 'metrics.csv'), 'utf8');
    expect(csv.match(/^\d,\d000,loss,0.5$/gm)).toEqual(['1,1000,loss,0.5', '2,2000,loss,0.5']);
    expect(csv).toMatch(/^step,endMs,name,value\n/);
    expect(csv).toContain('2,2000,"a,b",2\n');
    const prometheus = await readFile(join(directory, 'metrics.prom'), 'utf8');
    expect(prometheus).toMatch(/^shardwise_step\{.*\} 2$/m);
    const names = await readdir(directory);
    const events = names.find((name) => name.startsWith('events.out.tfevents.0000000001.')) ?? '';
    const file = await readFile(join(directory, events));
    let records = 0;
    for (let at = 0; at < file.length; at += 16 + Number(file.readBigUInt64LE(at))) records++;
    expect(records).toBe(3);
  });

  it('write the event file that TensorBoard writes itself, byte for byte', async () => {
    const [open] = await loadSinks(['tensorboard']);
    const sink = open?.(directory, () => {});
    for (const { step, endMs, figures } of golden.steps) {
      const numbers = Object.entries(figures).map(([name, value]) => [name, Number(value)]);
      await sink?.({ step, endMs, figures: Object.fromEntries(numbers) });
    }
    const [name = ''] = await readdir(directory);
    expect(name).toMatch(/^events\.out\.tfevents\.1700000000\./);
    expect(hex(await readFile(join(directory, name)))).toBe(golden.file);
  });

  it('are functions of modules, too', async () => {
    const path = join(directory, 'own.mjs');
    await writeFile(
      path,
      `import { appendFileSync } from 'node:fs';
       export default ({ step, figures }) => appendFileSync(${JSON.stringify(join(directory, 'own'))}, step + ' ' + figures.loss + '\\n');`,
    );
    await give([path]);
    expect(await readFile(join(directory, 'own'), 'utf8')).toBe('1 0.5\n2 0.5\n');
  });

  it('that fail are told once, and the others go on', async () => {
    const given: StepFigures[] = [];
    const told: string[] = [];
    const failing = (): never => {
      throw new Error('disk full');
    };
    const queue = new SinkQueue([failing, (step) => void given.push(step)], (text) =>
      told.push(text),
    );
    const first = stateAfter(undefined, 1);
    queue.update(first);
    queue.update(stateAfter(first, 2));
    await queue.close();
    expect(told).toEqual([expect.stringContaining('disk full')]);
    expect(given.map(({ step }) => step)).toEqual([1, 2]);
  });

  it('are closed after the last step, also those of modules', async () => {
    const path = join(directory, 'own.mjs');
    const file = JSON.stringify(join(directory, 'own'));
    await writeFile(
      path,
      `import { appendFileSync } from 'node:fs';
       const sink = ({ step }) => appendFileSync(${file}, step + ' ');
       sink.close = async () => appendFileSync(${file}, 'closed');
       export default sink;`,
    );
    await give([path]);
    expect(await readFile(join(directory, 'own'), 'utf8')).toBe('1 2 closed');
  });

  it('that cannot be closed are told, and the others are closed', async () => {
    const told: string[] = [];
    const closed: string[] = [];
    const sink = (close: () => Promise<void>): MetricSink => Object.assign(() => {}, { close });
    const queue = new SinkQueue(
      [
        sink(() => Promise.reject(new Error('no answer'))),
        sink(async () => void closed.push('second')),
      ],
      (text) => told.push(text),
    );
    await queue.close();
    expect(told).toEqual([expect.stringContaining('no answer')]);
    expect(closed).toEqual(['second']);
  });

  it('are refused if a module does not load or exports no function', async () => {
    await expect(loadSinks(['tensorbord'])).rejects.toThrow(
      /csv, opentelemetry, prometheus, tensorboard/,
    );
    const path = join(directory, 'none.mjs');
    await writeFile(path, 'export const sink = 1;');
    await expect(loadSinks([path])).rejects.toThrow(/no function as its default export/);
  });
});
