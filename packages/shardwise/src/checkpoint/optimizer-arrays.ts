import { CheckpointError, type HostArray, type HostArrays } from '@shardwise/core';
import { z } from 'zod';
import type { JsonValue } from './state-file.ts';

/** The state dict of an optimizer, whatever its settings. */
interface OptimizerState {
  readonly state: Readonly<Record<string, Readonly<Record<string, HostArray>>>>;
  readonly paramGroups: readonly object[];
}

/** As a checkpoint stores it: arrays under `parameter.name`, settings as JSON. */
export interface StoredOptimizer {
  readonly arrays: HostArrays;
  readonly groups: JsonValue;
}

const groupsSchema = z.array(z.looseObject({ params: z.array(z.int().nonnegative()) }));

export function storeOptimizer({ state, paramGroups }: OptimizerState): StoredOptimizer {
  const arrays: Record<string, HostArray> = {};
  for (const [parameter, entries] of Object.entries(state)) {
    for (const [name, array] of Object.entries(entries)) arrays[`${parameter}.${name}`] = array;
  }
  return { arrays, groups: z.json().parse(paramGroups) };
}

/**
 * The inverse of storeOptimizer, for an optimizer like `current`: its settings are those stored,
 * and settings that were not stored stay. Throws CheckpointError where the groups are of another optimizer.
 */
export function restoreOptimizer<State extends OptimizerState>(
  stored: StoredOptimizer,
  current: State,
): State {
  const parsed = groupsSchema.safeParse(stored.groups);
  if (!parsed.success || parsed.data.length !== current.paramGroups.length) {
    throw new CheckpointError(
      {
        asked: `to restore an optimizer of ${current.paramGroups.length} parameter groups`,
        found: parsed.success
          ? `${parsed.data.length} groups`
          : `no groups: ${parsed.error.issues[0]?.message ?? ''}`,
        todo: 'Restore the optimizer that was saved, with the same groups',
      },
      { groups: current.paramGroups.length },
    );
  }
  const state: Record<string, Record<string, HostArray>> = {};
  for (const [key, array] of Object.entries(stored.arrays)) {
    const dot = key.indexOf('.');
    (state[key.slice(0, dot)] ??= {})[key.slice(dot + 1)] = array;
  }
  const paramGroups = current.paramGroups.map((group, index) => ({
    ...group,
    ...parsed.data[index],
  }));
  return { ...current, state, paramGroups };
}
