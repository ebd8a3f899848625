import { CheckpointError } from '@shardwise/core/extend';
import { z } from 'zod';
import type { CheckpointFiles } from './checkpoint-files.ts';
import type { StoredGroup } from './state-file.ts';

/** Settings of a parameter group, as ranks compare them. */
interface Settings {
  /** Checksum of the names of its parameters. */
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
 * Throws CheckpointError where ranks have groups of the same parameters with other settings: each trains its
 * part of them in its own way, and the settings of one are saved. `held` by rank.
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
