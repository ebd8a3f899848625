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
import { collectGarbage } from './collect-garbage.ts';
import { DryGroup } from './dry-group.ts';
import { median, round } from './summary.ts';

const layerCounts = [4, 24, 96] as const;
const deepest = Math.max(...layerCounts);
const rounds = 7;
/** The number of layers that each world plans before any round counts, so that the code is compiled. */
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

/** The effort of planning a training's first steps. */
interface Planning {
  /** The nodes of the steps' graphs, both of graphs for which plans are made and of those whose plan is found. */
  readonly nodes: number;
  /** The time that this thread was on a core. */
  readonly microseconds: number;
}

/**
 * Measures the time to plan per node of the graph. The largest GPT has 24 times the layers of the smallest. Nothing is
 * computed.
 */
export const plan: Bench = {
  about: 'time to make a plan, by node of the graph, of GPTs of 4, 24 and 96 layers',
  run: async () => {
    const rows: [string, string][] = [];
    const record: Record<string, unknown> = {};
    for (const world of worlds) {
      for (let warm = 0; warm < warmUpLayers; warm += deepest) await planning(world, deepest);
      // A round plans the same number of layers for each depth, so that garbage collection affects all depths alike.
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

/** Plans several models, which together have as many layers as the deepest one. */
async function planningOf(world: World, layers: number): Promise<Planning> {
  const sum = { nodes: 0, microseconds: 0 };
  // The garbage of other depths must not be collected during this measurement.
  collectGarbage();
  for (let count = 0; count < deepest / layers; count++) {
    const { nodes, microseconds } = await planning(world, layers);
    sum.nodes += nodes;
    sum.microseconds += microseconds;
  }
  return sum;
}

async function planning({ axis, group, strategy }: World, layers: number): Promise<Planning> {
  // Each rank has its own plans, so none exists yet.
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
    // If a plan has to be made, that begins right after the look-up, so this event is its start.
    this.#start = now;
  });

  stop(): Planning {
    this.#unsubscribe();
    return { nodes: this.#nodes, microseconds: this.#microseconds };
  }
}

function onCore(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** Makes a device that accepts programs, and does not change memory. */
function planner(): Backend {
  const executable: Executable = { run: () => Promise.resolve(), dispose: () => {} };
  return Object.assign(interpreter(), { compile: () => Promise.resolve(executable) });
}
