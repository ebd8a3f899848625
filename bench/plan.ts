import {
  fromData,
  LineMesh,
  manualSeed,
  nn,
  optim,
  setRank,
  statistics,
  type Strategy,
} from '@shardwise/core';
import { singleGroup } from '@shardwise/collectives';
import type { Backend, Executable, ProcessGroup } from '@shardwise/core/spec';
import { ddp, fsdp, parallelize } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { GPT } from '../examples/gpt/model.ts';
import type { Bench } from './bench.ts';
import { DryGroup } from './dry-group.ts';
import { median, round } from './summary.ts';

const layerCounts = [4, 24, 96] as const;
const rounds = 5;
const tokens = 16;

interface World {
  readonly name: string;
  readonly group: () => ProcessGroup;
  readonly strategy: () => Strategy;
}

const worlds: readonly World[] = [
  { name: '1 rank', group: () => singleGroup(), strategy: () => ddp() },
  { name: 'DDP, 8 ranks', group: () => new DryGroup(8), strategy: () => ddp() },
  { name: 'FSDP, 8 ranks', group: () => new DryGroup(8), strategy: () => fsdp() },
];

/** What it takes to make the plans of a training's first steps, by operation of their programs. */
interface Planning {
  readonly operations: number;
  readonly microseconds: number;
}

/** Time to plan, by operation, of GPTs of which one has 24 times the layers of the other: nothing is computed. */
export const plan: Bench = {
  about: 'time to make a plan, by operation, of GPTs of 4, 24 and 96 layers',
  run: async () => {
    const rows: [string, string][] = [];
    const record: Record<string, unknown> = {};
    for (const world of worlds) {
      await planning(world, layerCounts[0]);
      const found = [];
      for (const layers of layerCounts) {
        const all: Planning[] = [];
        for (let count = 0; count < rounds; count++) all.push(await planning(world, layers));
        const [{ operations } = { operations: 0 }] = all;
        const perOperation = median(all.map((each) => each.microseconds / each.operations));
        found.push({ layers, operations, microseconds: round(perOperation, 2) });
      }
      const times = found.map(({ microseconds }) => microseconds);
      const spread = round(Math.max(...times) / Math.min(...times), 3);
      record[world.name] = { found, spread };
      for (const { layers, operations, microseconds } of found) {
        rows.push([
          `${world.name}, ${layers} layers`,
          `${microseconds} µs for each of ${operations}`,
        ]);
      }
      rows.push([`${world.name}, largest over smallest`, `${spread}`]);
    }
    return { rows, record };
  },
};

async function planning({ group, strategy }: World, layers: number): Promise<Planning> {
  const device = new Planner();
  setRank({ device: device.backend, mesh: new LineMesh('dp', group()) });
  manualSeed(1);
  const model = new GPT({
    vocabularySize: 64,
    contextLength: tokens,
    layers,
    heads: 2,
    channels: 8,
  });
  const parallel = await parallelize(model, strategy());
  const optimizer = new optim.AdamW(model.parameters());
  const { compileMs: before } = statistics();
  device.operations = 0;
  for (let step = 0; step < 2; step++) {
    const inputs = fromData(new Int32Array(tokens), [1, tokens], 'i32');
    const loss = nn.functional.crossEntropy(parallel.forward(inputs), inputs);
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
  }
  const microseconds = (statistics().compileMs - before) * 1000;
  return { operations: device.operations, microseconds };
}

/** A device that takes programs, and leaves memory as it is. */
class Planner {
  readonly backend: Backend = interpreter();
  operations = 0;

  constructor() {
    const executable: Executable = { run: () => Promise.resolve(), dispose: () => {} };
    this.backend.compile = (program) => {
      this.operations += program.instructions.length;
      return Promise.resolve(executable);
    };
  }
}
