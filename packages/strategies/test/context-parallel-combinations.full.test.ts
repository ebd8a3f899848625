import { autocast, fromData, manualSeed, nn, optim, type Strategy } from '@shardwise/core';
import {
  compose,
  contextParallel,
  ddp,
  fsdp,
  gptTensorParallel,
  parallelize,
  tensorParallel,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { GPT } from '../../../examples/gpt/model.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { testMs } from './time-limits.ts';

const [rows, tokens, heads, vocabulary, steps] = [2, 16, 4, 12, 3];

interface Way {
  readonly axes: readonly { readonly name: string; readonly size: number }[];
  readonly strategy: (() => Strategy) | null;
  readonly isHalf?: boolean;
}

async function lossesOf({ axes, strategy, isHalf = false }: Way): Promise<readonly number[][]> {
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  const train = async (): Promise<number[]> => {
    manualSeed(0);
    const model = new GPT({
      vocabularySize: vocabulary,
      contextLength: tokens,
      layers: 2,
      heads,
      channels: 16,
    });
    const parallel = strategy === null ? model : await parallelize(model, strategy());
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
    const losses: number[] = [];
    for (let step = 0; step < steps; step++) {
      const numbers = (factor: number): Int32Array<ArrayBuffer> =>
        Int32Array.from({ length: rows * tokens }, (_, i) => (factor * i * i + step) % vocabulary);
      const labels = numbers(5).map((label, i) => (i % tokens < 4 ? -100 : label));
      const forward = () =>
        nn.functional.crossEntropy(
          parallel.forward(fromData(numbers(7), [rows, tokens], 'i32')).reshape([-1, vocabulary]),
          fromData(labels, [rows * tokens], 'i32'),
        );
      optimizer.zeroGrad();
      const loss = isHalf ? autocast({ dtype: 'bf16' }, forward) : forward();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    return losses;
  };
  return [...(await onRanks(size, train, { axes, ...onCpu }))];
}

const cp = { name: 'cp', size: 2 };
const tp = { name: 'tp', size: 2 };
const alone: Way = { axes: [{ name: 'dp', size: 1 }], strategy: null };
const cut = (method: 'ring' | 'ulysses') => contextParallel({ method, arange: 'places' });
const withSequenceParallel = (method: 'ring' | 'ulysses'): Strategy =>
  compose(
    tensorParallel(gptTensorParallel({ heads, sequenceParallel: true })),
    cut(method),
    ddp({ axis: 'cp' }),
  );

const ways: Readonly<Record<string, Way>> = {
  'a ring, and tensor and sequence parallelism': {
    axes: [tp, cp],
    strategy: () => withSequenceParallel('ring'),
  },
  'exchanged heads, and tensor and sequence parallelism': {
    axes: [tp, cp],
    strategy: () => withSequenceParallel('ulysses'),
  },
  'a ring of four with FSDP': {
    axes: [{ name: 'cp', size: 4 }],
    strategy: () => compose(cut('ring'), fsdp({ axis: 'cp' })),
  },
};

it.each(Object.keys(ways))(
  'train as one rank does: %s',
  async (name) => {
    const [expected] = await lossesOf(alone);
    const ranks = await lossesOf(ways[name] ?? expect.fail(name));
    for (const losses of ranks) {
      assertAllclose(losses, expected ?? [], { rtol: 1e-5, atol: 1e-5 });
    }
  },
  testMs,
);

it.each(['ring', 'ulysses'] as const)(
  'products in bf16 give the losses of one rank in bf16, by the method %s',
  async (method) => {
    const [expected] = await lossesOf({ ...alone, isHalf: true });
    const ranks = await lossesOf({
      axes: [cp],
      strategy: () => compose(cut(method), ddp({ axis: 'cp' })),
      isHalf: true,
    });
    for (const losses of ranks) {
      expect(losses).toEqual(ranks[0]);
      assertAllclose(losses, expected ?? [], { rtol: 5e-3, atol: 5e-3 });
    }
  },
  testMs,
);
