import { availableParallelism, cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import type { Bench } from './bench.ts';
import { collectives } from './collectives/collectives.ts';
import { contextParallel } from './context-parallel/context-parallel.ts';
import { data } from './data/data.ts';
import { ddp } from './ddp.ts';
import { engine } from './engine.ts';
import { expertLearning } from './expert-learning.ts';
import { lengths } from './lengths.ts';
import { load as loadModel } from './load/load.ts';
import { matmul } from './matmul.ts';
import { matmulRows } from './matmul-rows.ts';
import { matmulRule } from './matmul-rule.ts';
import { memory } from './memory.ts';
import { models } from './models/models.ts';
import { moe } from './moe.ts';
import { parameterServer } from './parameter-server/parameter-server.ts';
import { noLockStep } from './no-lock-step/no-lock-step.ts';
import { page } from './page.ts';
import { pipeline } from './pipeline/pipeline.ts';
import { plan } from './plan.ts';
import { profilerCost } from './profiler.ts';
import { servePeers } from './serve/peers.ts';
import { serve } from './serve/serve.ts';
import { serveSoak } from './serve/soak.ts';
import { strategies } from './strategies.ts';
import { shares } from './shares.ts';
import { round } from './summary.ts';
import { survive } from './survive/survive.ts';
import { tensorParallel } from './tensor-parallel/tensor-parallel.ts';
import { train } from './train.ts';
import { UsageError } from './usage-error.ts';
import { webgpu } from './webgpu.ts';

// npm run -s bench -- NAME [--json] [options of the benchmark]
// Prints a table. With --json, the last line is one JSON object with the same figures and more.

const benches: Readonly<Record<string, Bench>> = {
  train,
  shares,
  matmul,
  'matmul-rows': matmulRows,
  'matmul-rule': matmulRule,
  page,
  webgpu,
  data,
  ddp,
  engine,
  lengths,
  load: loadModel,
  models,
  memory,
  strategies,
  collectives,
  'tensor-parallel': tensorParallel,
  'context-parallel': contextParallel,
  pipeline,
  moe,
  'expert-learning': expertLearning,
  'parameter-server': parameterServer,
  'no-lock-step': noLockStep,
  survive,
  plan,
  profiler: profilerCost,
  serve,
  'serve-peers': servePeers,
  'serve-soak': serveSoak,
};

const [name = '', ...args] = process.argv.slice(2);
try {
  await run();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}

async function run(): Promise<void> {
  const bench = Object.hasOwn(benches, name) ? benches[name] : undefined;
  if (bench === undefined) throw new UsageError(foundName(), `Give one of these:\n${namesText()}`);
  const values = valuesOf(bench);
  const loadBefore = load();
  const { rows, record } = await bench.run(values);
  const machine = {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    node: process.version,
    loadBefore,
    loadAfter: load(),
  };
  const all = [
    ...rows,
    ['load before, after', `${machine.loadBefore}, ${machine.loadAfter}`],
  ] as const;
  const width = Math.max(...all.map(([label]) => label.length));
  console.log(
    `${name}: ${bench.about}\n${machine.cpu}, ${machine.cores} cores, Node ${machine.node}\n`,
  );
  for (const [label, value] of all) console.log(`  ${label.padEnd(width)}  ${value}`);
  if (values['json'] === true) console.log(JSON.stringify({ name, ...record, machine }));
}

function valuesOf({ flags }: Bench): Readonly<Record<string, unknown>> {
  const options = { ...flags, json: { type: 'boolean' } } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    // The first sentence of the message says what is wrong. The others advise on positional arguments, which do not
    // exist here.
    const [found = ''] = error instanceof Error ? error.message.split('. ') : [];
    const names = Object.keys(options).map((flag) => `--${flag}`);
    throw new UsageError(
      found.slice(0, 1).toLowerCase() + found.slice(1),
      `The benchmark ${name} takes ${names.join(', ')}`,
    );
  }
}

function foundName(): string {
  return name === '' ? 'no benchmark is named' : `unknown benchmark '${name}'`;
}

function namesText(): string {
  return Object.entries(benches)
    .map(([key, { about }]) => `  ${key.padEnd(17)}${about}`)
    .join('\n');
}

/** Returns the number of runnable threads over the last minute. */
function load(): number {
  return round(loadavg()[0] ?? 0, 2);
}
