import type { CallOptions, ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import { checkParts } from '../call/checks.ts';
import { concatenate, spread } from './flat.ts';
import { packsOf, pairsOf } from './packs.ts';

/**
 * Does an `allGather` of each input into the output at the same place of the list. Short ones share a call.
 * Throws what `allGather` throws, and ConfigError if the lists have different lengths.
 * Shape: each input [n] -> output [W*n].
 */
export async function allGatherCoalesced(
  group: ProcessGroup,
  inputs: readonly TypedBytes[],
  outputs: readonly TypedBytes[],
  options?: CallOptions,
): Promise<void> {
  const pairs = pairsOf('allGatherCoalesced', group, inputs, outputs);
  for (const { input, output } of pairs) {
    checkParts(
      'allGatherCoalesced',
      { name: 'input', buffer: input },
      { name: 'output', buffer: output },
      group,
    );
  }
  const calls = packsOf(pairs, ({ output }) => output).map(async ({ dtype, items }) => {
    const [only, ...others] = items;
    if (only !== undefined && others.length === 0) {
      return group.allGather(only.input, only.output, options);
    }
    const flat = concatenate(items.map(({ input }) => input.bytes));
    const gathered = new Uint8Array(flat.byteLength * group.size);
    await group.allGather({ bytes: flat, dtype }, { bytes: gathered, dtype }, options);
    // The parts have the order in which they were gathered: by rank, then by item.
    const parts = Array.from({ length: group.size }, (_, rank) =>
      items.map(({ input, output }) => {
        const { byteLength } = input.bytes;
        return output.bytes.subarray(rank * byteLength, (rank + 1) * byteLength);
      }),
    );
    spread(gathered, parts.flat());
  });
  await Promise.all(calls);
}
