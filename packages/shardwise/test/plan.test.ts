import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { namedCluster } from '@shardwise/planner';
import { openCluster, openModel, openPlan } from '@shardwise/planner/node';
import { compareRun } from '../src/plan/compare-run.ts';
import { htmlReport } from '../src/report/html-report.ts';
import { parseMemory, parseSize } from '../src/cli/parse-values.ts';
import { planCommand, type PlanCommandOptions } from '../src/plan/plan-command.ts';
import { reports, runOf } from './run-fixture.ts';

const usual: PlanCommandOptions = {
  model: 'gpt:1.7b',
  cluster: '8xa100',
  batch: 64,
  sequence: undefined,
  memory: undefined,
  goal: 'time',
  precision: 'mixed',
  keep: 3,
  json: false,
  page: undefined,
  trace: undefined,
};

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-plan-'));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(directory, { recursive: true });
});

async function printed(
  options: Partial<PlanCommandOptions>,
): Promise<[code: number, text: string]> {
  const texts: string[] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    texts.push(String(text));
    return true;
  });
  const code = await planCommand({ ...usual, ...options });
  return [code, texts.join('')];
}

const traceSchema = z.object({
  traceEvents: z.array(z.object({ name: z.string(), tid: z.number() })),
});

describe('shardwise plan', () => {
  test('prints layouts, and writes a page without a network and a timeline of each place', async () => {
    const [page, trace] = [join(directory, 'plan.html'), join(directory, 'plan.json')];
    const [code, text] = await printed({ page, trace });
    expect(code).toBe(0);
    expect(text).toMatch(/^gpt:1\.7b, 1\.65\d? B parameters, on 8 × a100/);
    const html = await readFile(page, 'utf8');
    expect(html.match(/<input type="range"/g)).toHaveLength(2);
    expect(html).toContain('<h2>Memory of a rank</h2>');
    expect(html).toContain('forward and backward');
    expect(html).not.toContain('Parallel');
    expect(html).not.toMatch(/https?:/);
    const { traceEvents } = traceSchema.parse(JSON.parse(await readFile(trace, 'utf8')));
    expect(traceEvents.some(({ name }) => name.startsWith('forward'))).toBe(true);
  });

  test('prints the plan as JSON', async () => {
    const [, text] = await printed({ json: true });
    expect(JSON.parse(text)).toMatchObject({ goal: 'time', model: { name: 'gpt:1.7b' } });
  });

  test('ends with 1 and says what to change if nothing fits', async () => {
    const [code, text] = await printed({ memory: 1e9 });
    expect(code).toBe(1);
    expect(text).toContain('Nothing fits. The least that a rank needs is');
  });

  test('reads a config.json and the file of a cluster', async () => {
    const config = join(directory, 'config.json');
    const sizes = { n_embd: 768, n_layer: 12, n_head: 12, n_positions: 1024, vocab_size: 50_257 };
    await writeFile(
      config,
      JSON.stringify({ model_type: 'gpt2', architectures: ['GPT2LMHeadModel'], ...sizes }),
    );
    const cluster = join(directory, 'cluster.json');
    await writeFile(cluster, JSON.stringify(namedCluster('8xh100')));
    expect(await openModel(directory)).toMatchObject({ layers: 12, hidden: 768 });
    expect(await openCluster(cluster)).toEqual(namedCluster('8xh100'));
    await writeFile(cluster, 'no JSON');
    await expect(openCluster(cluster)).rejects.toThrow('text that is no JSON');
  });

  test('says of a file that is not there that it is not there, and not that it is no name', async () => {
    const missing = join(directory, 'missing.json');
    for (const open of [openCluster, openModel]) {
      await expect(open(missing)).rejects.toThrow(`from ${missing}: no file that can be read`);
    }
  });
});

describe('shardwise plan for the model of a script', () => {
  const script = async (text: string): Promise<string> => {
    const path = join(directory, 'model.ts');
    await writeFile(path, text);
    return path;
  };

  test('plans any model that the script describes by the graph of its pass', async () => {
    const model = await script(`
      import { nn, zeros } from '${import.meta.resolve('@shardwise/core')}';
      import { describeModule } from '${import.meta.resolve('@shardwise/planner')}';
      const net = new nn.Sequential(new nn.Linear(64, 256), new nn.ReLU(), new nn.Linear(256, 16));
      export default describeModule(net, [zeros([32, 64]), zeros([32, 16])], { loss: (output, target) => output.sub(target).square().mean() });
    `);
    const [code, text] = await printed({ model, cluster: '2xa100', json: true });
    expect(code).toBe(0);
    expect(JSON.parse(text)).toMatchObject({ model: { kind: 'modules', name: 'Sequential' } });
  });

  test('refuses a script that is not there, and one that exports no description', async () => {
    await expect(openModel(join(directory, 'none.ts'))).rejects.toThrow('no such file');
    await expect(openModel(await script('export const model = 1;'))).rejects.toThrow(
      'no default export',
    );
  });

  test('says in which line a script failed, and why, while planning ran it', async () => {
    const core = import.meta.resolve('@shardwise/core');
    const path = await script(`
      import { nn, zeros } from '${core}';
      new nn.Linear(8, 4).forward(zeros([2, 9]));
    `);
    const failed = openModel(path);
    await expect(failed).rejects.toThrow(
      `a model from ${path}, which planning runs to trace a training pass of the model: the script failed in line 3 with ShapeError: linear`,
    );
    await expect(failed).rejects.toMatchObject({
      code: 'CONFIG',
      fields: { path, line: 3 },
      cause: { code: 'SHAPE' },
    });
  });
});

describe('a run with a plan', () => {
  /** Writes a plan, by default for two ranks. */
  async function planFile(options: Partial<PlanCommandOptions> = {}): Promise<string> {
    const path = join(directory, 'plan.json');
    const [, text] = await printed({ json: true, cluster: '1x2xa100', batch: 2, ...options });
    await writeFile(path, text);
    return path;
  }

  test('is compared by the medians of its steps without the first one', async () => {
    const planned = await openPlan(await planFile());
    const [first, ...rest] = reports(5).map((report) =>
      report.step === 1 ? { ...report, stepMs: 9000, computeMs: 8000 } : report,
    );
    if (first === undefined) throw new Error('a run has steps');
    const { rows, text } = compareRun(planned, runOf([first, ...rest]));
    expect(rows.map(([name, , measured]) => [name, measured])).toEqual([
      ['', 'measured'],
      ['step', '100 ms'],
      ['compute', '70.0 ms'],
      ['communication', '15.0 ms'],
      ['data', '5.00 ms'],
      ['program', '4.00 ms'],
    ]);
    expect(text).toContain('The step takes');
  });

  test('shows in its report where the two part', async () => {
    const state = runOf(reports(5));
    const compared = compareRun(await openPlan(await planFile()), state);
    const html = htmlReport(state, { isOver: true, compared });
    expect(html).toContain('<h2>The plan of this run</h2>');
    expect(html).toContain('<th scope="row">communication</th>');
    expect(html).toContain(compared.cause);
  });

  test('says so if the plan is for other ranks, and if there were too few steps', async () => {
    const eight = await openPlan(await planFile({ cluster: '8xa100', batch: 64 }));
    const words = 'The plan is for 8 ranks, and this run had 2.';
    expect(compareRun(eight, runOf(reports(5)))).toEqual({ rows: [], cause: words, text: words });
    const two = await openPlan(await planFile());
    expect(compareRun(two, runOf(reports(1))).text).toContain('too few steps');
  });

  test.each([
    ['a plan in which nothing fits', { memory: 1e9 }, 'ranked'],
    ['the text of a plan', { json: false }, 'no JSON'],
  ])('is refused before it starts with %s', async (_, options, words) => {
    await expect(openPlan(await planFile(options))).rejects.toThrow(words);
  });
});

test('the memory of a rank is not a number of bytes that nobody means', () => {
  expect(parseMemory('40GB')).toBe(40e9);
  expect(parseMemory('40000000000')).toBe(40e9);
  expect(() => parseMemory('40')).toThrow('It is 40 bytes. Write the unit, such as 40GB');
  expect(() => parseMemory('lots')).toThrow('a size such as 60GB');
});

test('sizes have units of 1000 and of 1024', () => {
  expect(parseSize('60GB')).toBe(60e9);
  expect(parseSize('1.5TiB')).toBe(1.5 * 2 ** 40);
  expect(parseSize('512')).toBe(512);
  for (const wrong of ['', 'GB', '-1GB', '6 GBs', '0GB'])
    expect(() => parseSize(wrong)).toThrow('a size');
});
