import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  fromData,
  LineMesh,
  manualSeed,
  nn,
  optim,
  setRank,
  type Strategy,
  subscribe,
} from '@shardwise/core';
import { singleGroup } from '@shardwise/collectives';
import type { Backend, Executable, ProcessGroup } from '@shardwise/core/spec';
import { ddp, fsdp, gptTensorParallel, parallelize, tensorParallel } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { GPT } from '../examples/gpt/model.ts';
import type { Bench } from './bench.ts';
import { DryGroup } from './dry-group.ts';
import { median, round } from './summary.ts';

const layerCounts = [4, 24, 96] as const;
const deepest = Math.max(...layerCounts);
const rounds = 7;
/** Before any round counts, each world has planned models of at least so many layers: then the code is compiled. */
const warmUpLayers = 400;
const tokens = 16;
const heads = 8;

interface World {
  readonly name: string;
  readonly axis: string;
  readonly group: () => ProcessGroup;
  readonly strategy: () => Strategy;
}

const worlds: readonly World[] = [
  { name: '1 rank', axis: 'dp', group: () => singleGroup(), strategy: () => ddp() },
  { name: 'DDP, 8 ranks', axis: 'dp', group: () => new DryGroup(8), strategy: () => ddp() },
  { name: 'FSDP, 8 ranks', axis: 'dp', group: () => new DryGroup(8), strategy: () => fsdp() },
  {
    name: 'tensor parallelism, 8 ranks',
    axis: 'tp',
    group: () => new DryGroup(8),
    strategy: () => tensorParallel(gptTensorParallel({ heads })),
  },
];

/** What it takes to make the plans of a training's first steps. */
interface Planning {
  /** Of the steps' graphs: those that plans are made of, and those whose plan is found. */
  readonly nodes: number;
  /** Time that this thread was on a core. */
  readonly microseconds: number;
}

/** Time to plan, by node of the graph, of GPTs of which one has 24 times the layers of the other: nothing is computed. */
export const plan: Bench = {
  about: 'time to make a plan, by node of the graph, of GPTs of 4, 24 and 96 layers',
  run: async () => {
    const rows: [string, string][] = [];
    const record: Record<string, unknown> = {};
    for (const world of worlds) {
      for (let warm = 0; warm < warmUpLayers; warm += deepest) await planning(world, deepest);
      // A round plans as many layers of each depth: what the garbage collector takes is then shared alike.
      const all = new Map(layerCounts.map((layers) => [layers, [] as Planning[]]));
      for (let count = 0; count < rounds; count++) {
        for (const [layers, own] of all) own.push(await planningOf(world, layers));
      }
      const found = [...all].map(([layers, own]) => {
        const perNode = median(own.map(({ nodes, microseconds }) => microseconds / nodes));
        return {
          layers,
          nodes: ((own[0]?.nodes ?? 0) * layers) / deepest,
          microseconds: round(perNode, 2),
        };
      });
      const times = found.map(({ microseconds }) => microseconds);
      const spread = round(Math.max(...times) / Math.min(...times), 3);
      record[world.name] = { found, spread };
      for (const { layers, nodes, microseconds } of found) {
        rows.push([`${world.name}, ${layers} layers`, `${microseconds} µs for each of ${nodes}`]);
      }
      rows.push([`${world.name}, largest over smallest`, `${spread}`]);
    }
    return { rows, record };
  },
};

/** Of so many models that they have as many layers as the deepest one. */
async function planningOf(world: World, layers: number): Promise<Planning> {
  const sum = { nodes: 0, microseconds: 0 };
  // What is left of other depths is not this one's to clear away.
  collectGarbage();
  for (let count = 0; count < deepest / layers; count++) {
    const { nodes, microseconds } = await planning(world, layers);
    sum.nodes += nodes;
    sum.microseconds += microseconds;
  }
  return sum;
}

async function planning({ axis, group, strategy }: World, layers: number): Promise<Planning> {
  // Each rank has plans of its own: none is known.
  setRank({ device: planner(), mesh: new LineMesh(axis, group()) });
  manualSeed(1);
  const model = new GPT({
    vocabularySize: 64,
    contextLength: tokens,
    layers,
    heads,
    channels: 2 * heads,
  });
  const parallel = await parallelize(model, strategy());
  const optimizer = new optim.AdamW(model.parameters());
  const clock = new PlanningClock();
  for (let step = 0; step < 2; step++) {
    const inputs = fromData(new Int32Array(tokens), [1, tokens], 'i32');
    const loss = nn.functional.crossEntropy(parallel.forward(inputs), inputs);
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
  }
  return clock.stop();
}

/** Adds up the time that this thread is on a core while plans are made. */
class PlanningClock {
  #nodes = 0;
  #microseconds = 0;
  #start = 0;
  readonly #unsubscribe = subscribe(({ name, detail = '' }) => {
    const now = onCore();
    if (name === 'look up the plan') this.#nodes += Number.parseInt(detail, 10);
    if (name === 'make a plan') this.#microseconds += now - this.#start;
    // Where a plan is made, that begins as soon as it has been looked for.
    this.#start = now;
  });

  stop(): Planning {
    this.#unsubscribe();
    return { nodes: this.#nodes, microseconds: this.#microseconds };
  }
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
}

function onCore(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** A device that takes programs, and leaves memory as it is. */
function planner(): Backend {
  const executable: Executable = { run: () => Promise.resolve(), dispose: () => {} };
  return Object.assign(interpreter(), { compile: () => Promise.resolve(executable) });
}
