import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MemoryStore } from '@shardwise/collectives/node';
import { describe, expect, it } from 'vitest';
import { runGenerations } from '../src/launcher/run-generations.ts';
import type { Generation, GenerationEnd } from '../src/rendezvous/generation.ts';
import type { Rendezvous } from '../src/rendezvous/rendezvous.ts';
import { generationOf, launchOptions, node } from './led-hosts.ts';

/** A rendezvous of one generation that notes how this host says that it ended. */
function notedRendezvous(
  generation: Generation,
  leads: boolean,
): { readonly said: readonly GenerationEnd[]; readonly rendezvous: Rendezvous } {
  const said: GenerationEnd[] = [];
  return {
    said,
    rendezvous: {
      leads,
      next: async () => ({ kind: 'generation', generation }),
      finish: async () => undefined,
      end: async (_, end) => void said.push(end),
      ended: () => Promise.withResolvers<GenerationEnd>().promise,
      isQuiet: () => false,
      takeRestart: () => false,
      onHosts: () => undefined,
      close: async () => undefined,
    },
  };
}

/** Runs ranks on a host that can write no logs. Returns how it says that the generation ended. */
async function failHere(leads: boolean): Promise<readonly GenerationEnd[]> {
  const generation = await generationOf([node(0, 1), node(1, 1)]);
  await writeFile(join(generation.runDirectory, 'logs'), '');
  const { said, rendezvous } = notedRendezvous(generation, leads);
  const running = runGenerations({
    ...launchOptions(generation),
    rendezvous,
    members: { min: 1, onNotice: () => undefined, store: new MemoryStore() },
    isElastic: false,
    onGeneration: async () => async () => undefined,
  });
  await expect(running).rejects.toThrow(/EEXIST/);
  return said;
}

describe('a host that cannot start its ranks', () => {
  it('ends the generation for all if it leads the others', async () => {
    expect(await failHere(true)).toMatchObject([
      { kind: 'failed', failure: { node: 'node 0 (host-0)' } },
    ]);
  });

  it('is lost alone if another one leads, and the others go on', async () => {
    expect(await failHere(false)).toEqual([]);
  });
});
