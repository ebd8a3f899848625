import { CheckpointError } from '@shardwise/core/extend';
import { z } from 'zod';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import type { StoredGroup } from '../format/index-file.ts';

/** The settings of a parameter group, in the form that ranks compare. */
interface Settings {
  /** The checksum of the names of the group's parameters. */
  readonly parameters: number;
  readonly settings: string;
}

export const settingsSchema: z.ZodType<Settings> = z.object({
  parameters: z.number(),
  settings: z.string(),
});

export function settingsOf({ params, settings }: StoredGroup, files: CheckpointFiles): Settings {
  const names = new TextEncoder().encode(params.join('\n'));
  return { parameters: files.checksum(names), settings: JSON.stringify(settings) };
}

/**
 * Throws CheckpointError if ranks have groups of the same parameters with different settings. Each rank would train its
 * part of them differently, and a checkpoint keeps the settings of only one rank. `held` contains the groups of each
 * rank.
 */
export function requireEqualSettings(asked: string, held: readonly (readonly Settings[])[]): void {
  const first = new Map<number, { readonly rank: number; readonly settings: string }>();
  for (const [rank, groups] of held.entries()) {
    for (const { parameters, settings } of groups) {
      const known = first.get(parameters);
      if (known === undefined) first.set(parameters, { rank, settings });
      else if (known.settings !== settings) {
        throw new CheckpointError(
          {
            asked,
            found: `an optimizer with ${known.settings} on rank ${known.rank} and with ${settings} on rank ${rank}`,
            todo: 'Make the same optimizer, with the same settings, on all ranks',
          },
          { ranks: [known.rank, rank] },
        );
      }
    }
  }
}
