import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import { conformanceCases } from './conformance.ts';
import { faults, mismatch, refuse } from './faults.ts';
import { pointToPointCases } from './point-to-point.ts';
import { inputsOf, type RandomCall, type RandomOperation } from './random-call.ts';
import { typed, zeros } from './typed-values.ts';

/** What all ranks of a group are to do, as data that threads and processes can be sent. */
export type ProcessGroupScenario =
  | { readonly kind: 'conformance' }
  | { readonly kind: 'random'; readonly calls: readonly RandomCall[] }
  | { readonly kind: 'fault'; readonly name: string }
  | { readonly kind: 'mismatch'; readonly name: string }
  | { readonly kind: 'refusals' };

export interface ScenarioOptions {
  /** Moves the buffer of a random call to memory that the group treats in its own way. */
  readonly place?: (buffer: TypedBytes) => TypedBytes;
}

/**
 * Plays one rank's part; what it returns can be posted. An error closes the group with it, and is
 * thrown again.
 */
export async function runProcessGroupScenario(
  group: ProcessGroup,
  scenario: ProcessGroupScenario,
  options: ScenarioOptions = {},
): Promise<unknown> {
  try {
    return await play(group, scenario, options.place ?? ((buffer) => buffer));
  } catch (error) {
    group.close(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

type Place = (buffer: TypedBytes) => TypedBytes;

async function play(
  group: ProcessGroup,
  scenario: ProcessGroupScenario,
  place: Place,
): Promise<unknown> {
  switch (scenario.kind) {
    case 'conformance':
      return playCases(group);
    case 'random':
      return Promise.all(scenario.calls.map((call) => playRandom(group, call, place)));
    case 'fault':
      return faults[scenario.name]?.(group);
    case 'mismatch':
      return mismatch(group, scenario.name);
    case 'refusals':
      return refuse(group);
    default:
      return scenario satisfies never;
  }
}

async function playCases(group: ProcessGroup): Promise<Readonly<Record<string, unknown>>> {
  const answers: Record<string, unknown> = {};
  for (const [name, { run }] of Object.entries({ ...conformanceCases, ...pointToPointCases })) {
    answers[name] = await run(group);
  }
  return answers;
}

/** The bytes that the call leaves this rank; calls are issued without awaiting the earlier ones. */
async function playRandom(
  group: ProcessGroup,
  call: RandomCall,
  place: Place,
): Promise<Uint8Array | undefined> {
  const { rank, size } = group;
  const { dtype, op, root, splits, elements } = call;
  const values = inputsOf(call, size)[rank] ?? [];
  const input = place(typed(dtype, values, { byteOffset: call.byteOffset }));
  const outputOf = (count: number): TypedBytes => place(zeros(dtype, count));
  const isRoot = rank === root;
  const bufferOf: Record<RandomOperation, () => Promise<TypedBytes | undefined>> = {
    allReduce: async () => {
      await group.allReduce(input, op);
      return input;
    },
    broadcast: async () => {
      await group.broadcast(input, root);
      return input;
    },
    reduce: async () => {
      await group.reduce(input, root, op);
      return input;
    },
    allGather: async () => {
      const output = outputOf(elements * size);
      await group.allGather(input, output);
      return output;
    },
    reduceScatter: async () => {
      const output = outputOf(elements);
      await group.reduceScatter(input, output, op);
      return output;
    },
    allToAll: async () => {
      const inputSplits = splits[rank] ?? [];
      const outputSplits = splits.map((row) => row[rank] ?? 0);
      const output = outputOf(outputSplits.reduce((sum, part) => sum + part, 0));
      await group.allToAll(input, output, { inputSplits, outputSplits });
      return output;
    },
    gather: async () => {
      const output = isRoot ? outputOf(elements * size) : undefined;
      await group.gather(input, output, root);
      return output;
    },
    scatter: async () => {
      const output = outputOf(elements);
      await group.scatter(isRoot ? input : undefined, output, root);
      return output;
    },
  };
  const buffer = await bufferOf[call.operation]();
  return buffer?.bytes.slice();
}
