import type { ProcessGroup } from '@shardwise/core/spec';
import type { ConformanceCases } from './conformance-case.ts';
import { conformanceCases } from './conformance.ts';
import { faults, mismatch, refuse } from './faults.ts';
import { type Place, playRandomCall } from './play-random-call.ts';
import { pointToPointCases } from './point-to-point.ts';
import type { RandomCall } from './random-call.ts';
import { subGroupCases } from './sub-groups.ts';

/** What all ranks of a group do, as data that can be sent to threads and processes. */
export type ProcessGroupScenario =
  | { readonly kind: 'conformance' }
  /** Plays the cases that are given as an option. They must be the same on all ranks. */
  | { readonly kind: 'cases' }
  | {
      readonly kind: 'random';
      readonly calls: readonly RandomCall[];
      /** The ranks of the group that plays the calls, in this order. The other ranks do nothing. */
      readonly members?: readonly number[];
    }
  | { readonly kind: 'fault'; readonly name: string }
  | { readonly kind: 'mismatch'; readonly name: string }
  | { readonly kind: 'refusals' };

interface ScenarioOptions {
  /** Moves the buffer of a random call to memory that the group treats in a special way. */
  readonly place?: Place;
  /** The cases of a scenario of kind 'cases'. */
  readonly cases?: ConformanceCases;
}

/** Plays one rank's part. The result can be posted. An error closes the group with this error, and is thrown again. */
export async function runProcessGroupScenario(
  group: ProcessGroup,
  scenario: ProcessGroupScenario,
  options: ScenarioOptions = {},
): Promise<unknown> {
  try {
    return await play(group, scenario, options);
  } catch (error) {
    group.close(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

async function play(
  group: ProcessGroup,
  scenario: ProcessGroupScenario,
  { place = (buffer) => buffer, cases = {} }: ScenarioOptions,
): Promise<unknown> {
  switch (scenario.kind) {
    case 'conformance':
      return playCases(group, contractCases(group.size));
    case 'cases':
      return playCases(group, cases);
    case 'random':
      return playRandomCalls(group, scenario, place);
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

async function playCases(
  group: ProcessGroup,
  cases: ConformanceCases,
): Promise<Readonly<Record<string, unknown>>> {
  const answers: Record<string, unknown> = {};
  for (const [name, { run }] of Object.entries(cases)) answers[name] = await run(group);
  return answers;
}

/** Makes the calls without awaiting earlier ones. */
async function playRandomCalls(
  world: ProcessGroup,
  { calls, members }: ProcessGroupScenario & { readonly kind: 'random' },
  place: Place,
): Promise<readonly (Uint8Array | undefined)[]> {
  const isMember = members?.includes(world.rank);
  const group =
    members === undefined
      ? world
      : await world.split(isMember ? 1 : undefined, members.indexOf(world.rank));
  if (group === undefined) return [];
  const results = await Promise.all(calls.map((call) => playRandomCall(group, call, place)));
  if (group !== world) group.close();
  return results;
}

/** Returns the cases for a group of a size. A single rank has nobody to send to. */
export function contractCases(size: number): ConformanceCases {
  const cases = { ...conformanceCases, ...subGroupCases };
  return size > 1 ? { ...cases, ...pointToPointCases } : cases;
}
