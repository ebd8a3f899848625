import { dtypes, type ProcessGroup } from '@shardwise/core/spec';
import { conformanceCases } from './conformance.ts';
import { faults, mismatch, refuse } from './faults.ts';
import { pointToPointCases } from './point-to-point.ts';
import { inputsOf, type RandomCall } from './random-call.ts';
import { typed, zeros } from './typed-values.ts';

/** What all ranks of a group are to do, as data that threads and processes can be sent. */
export type ProcessGroupScenario =
  | { readonly kind: 'conformance' }
  | { readonly kind: 'random'; readonly calls: readonly RandomCall[] }
  | { readonly kind: 'fault'; readonly name: string }
  | { readonly kind: 'mismatch'; readonly name: string }
  | { readonly kind: 'refusals' };

/**
 * Plays one rank's part; what it returns can be posted. An error closes the group with it, and is
 * thrown again.
 */
export async function runProcessGroupScenario(
  group: ProcessGroup,
  scenario: ProcessGroupScenario,
): Promise<unknown> {
  try {
    return await play(group, scenario);
  } catch (error) {
    group.close(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

async function play(group: ProcessGroup, scenario: ProcessGroupScenario): Promise<unknown> {
  switch (scenario.kind) {
    case 'conformance': {
      const answers: Record<string, unknown> = {};
      for (const [name, { run }] of Object.entries({ ...conformanceCases, ...pointToPointCases })) {
        answers[name] = await run(group);
      }
      return answers;
    }
    case 'random':
      return Promise.all(scenario.calls.map((call) => playRandom(group, call)));
    case 'fault':
      return faults[scenario.name]?.(group);
    case 'mismatch':
      return mismatch(group, scenario.name);
    case 'refusals':
      return refuse(group);
  }
}

/** The bytes that the call leaves this rank; calls are issued without awaiting the earlier ones. */
async function playRandom(group: ProcessGroup, call: RandomCall): Promise<Uint8Array | undefined> {
  const { rank, size } = group;
  const { dtype, op, root, splits, elements } = call;
  const values = inputsOf(call, size)[rank] ?? [];
  const byteOffset = call.byteOffset === 8 ? 8 : call.byteOffset * dtypes[dtype].bytes + 1;
  const input = typed(dtype, values, { byteOffset: call.byteOffset === 0 ? 0 : byteOffset });
  const isRoot = rank === root;
  switch (call.operation) {
    case 'allReduce':
      await group.allReduce(input, op);
      return input.bytes;
    case 'broadcast':
      await group.broadcast(input, root);
      return input.bytes;
    case 'reduce':
      await group.reduce(input, root, op);
      return input.bytes;
    case 'allGather': {
      const output = zeros(dtype, elements * size);
      await group.allGather(input, output);
      return output.bytes;
    }
    case 'reduceScatter': {
      const output = zeros(dtype, elements);
      await group.reduceScatter(input, output, op);
      return output.bytes;
    }
    case 'allToAll': {
      const inputSplits = splits[rank] ?? [];
      const outputSplits = splits.map((row) => row[rank] ?? 0);
      const output = zeros(
        dtype,
        outputSplits.reduce((sum, part) => sum + part, 0),
      );
      await group.allToAll(input, output, { inputSplits, outputSplits });
      return output.bytes;
    }
    case 'gather': {
      const output = isRoot ? zeros(dtype, elements * size) : undefined;
      await group.gather(input, output, root);
      return output?.bytes;
    }
    case 'scatter': {
      const output = zeros(dtype, elements);
      await group.scatter(isRoot ? input : undefined, output, root);
      return output.bytes;
    }
  }
}
