import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { type Backend, LineMesh, manualSeed, nn, setRank } from '@shardwise/core';
import type { TypedBytes } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import { expect, it } from 'vitest';
import { expertsStyle } from '../src/expert-parallel/experts-style.ts';
import { installStyle } from '../src/tensor-parallel/install-style.ts';

const features = 4;
/** The number of rows that this rank sends to the other one. */
const sent = 4;
const tokens = 2 * sent;

/** Calls `onOverlap` at each run that happens while communication is under way. */
function watched(onOverlap: () => void): Backend {
  const backend = interpreter();
  return {
    ...backend,
    compile: async (program) => {
      const executable = await backend.compile(program);
      return {
        ...executable,
        run: async (inputs, outputs, options) => {
          if (options?.overlap === true) onOverlap();
          await executable.run(inputs, outputs, options);
        },
      };
    },
  };
}

const floats = (length: number): TypedBytes => ({
  bytes: new Uint8Array(length * 4),
  dtype: 'f32',
});

it('rows go to experts, and gradients back, while the shared layer and other products are computed', async () => {
  const [first, second] = createLoopbackTransports(2).map((transport) =>
    createGroup(transport, { verify: false }),
  );
  if (first === undefined || second === undefined) throw new Error();
  /** Lets the other rank continue when this rank computes while it waits. Messages can't end before that. */
  let onOverlap: (() => void) | null = null;
  const device = watched(() => {
    onOverlap?.();
    onOverlap = null;
  });
  const whenOverlapped = (): Promise<void> =>
    new Promise((resolve) => {
      onOverlap = resolve;
    });
  setRank({ device, mesh: new LineMesh('ep', first) });
  manualSeed(0);
  const layer = new nn.MixtureOfExperts(features, 5, 4, {
    gate: nn.roundRobinGate({ k: 1 }),
    shared: new nn.GELU(),
  });
  layer.experts = new nn.Experts(2, features, 5);
  const style = expertsStyle({ k: 1, limit: tokens, before: 1 });
  installStyle(style, layer, { axis: 'ep', size: 2, rank: 0 }, 'layer');
  layer.router.requiresGrad_(false);
  const order: string[] = [];
  const peer = async (): Promise<void> => {
    const counts = { bytes: new Uint8Array(new Int32Array(4).buffer), dtype: 'i32' } as const;
    const theirs = { bytes: new Uint8Array(16), dtype: 'i32' } as const;
    await second.allToAll(counts, theirs);
    expect([...new Int32Array(theirs.bytes.buffer)].slice(0, 2)).toEqual([2, 2]);
    await whenOverlapped();
    order.push('to experts');
    await exchange('in');
    await exchange('out');
    await exchange('in');
    await whenOverlapped();
    order.push('gradients to tokens');
    await exchange('out');
  };
  const exchange = (way: 'in' | 'out'): Promise<void> => {
    const elements = sent * features;
    const [many, none] = [
      [elements, 0],
      [0, 0],
    ];
    const [inputSplits, outputSplits] = way === 'in' ? [none, many] : [many, none];
    return second.allToAll(
      floats(way === 'in' ? 0 : elements),
      floats(way === 'in' ? elements : 0),
      { inputSplits, outputSplits },
    );
  };
  const x = new nn.Parameter(new Float32Array(tokens * features).fill(1), [tokens, features]);
  layer.forward(x).square().sum().backward();
  const [gradient] = await Promise.all([x.grad?.data(), peer()]);
  expect(gradient).toHaveLength(tokens * features);
  expect(order).toEqual(['to experts', 'gradients to tokens']);
});
