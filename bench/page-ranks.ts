import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPage, reasonWithoutBrowser } from '@shardwise/testing/node';
import { build } from 'vite';
import { z } from 'zod';
import { serveFolder } from '../test/browser/serve-folder.ts';
import type { BenchResult } from './bench.ts';
import type { RankTurn, TurnsTask } from './page-ranks/contestants.ts';
import { pageModels } from './page-models.ts';
import { pairedRatio, round, type Rounds, summarize, tokensPerSecond } from './summary.ts';

const STEPS = 5;
const RANKS = 2;

const rounds = z.array(z.array(z.object({ msPerStep: z.number(), losses: z.array(z.number()) })));
const pageTurns = z.object({
  browser: z.string(),
  transport: z.string(),
  turns: z.object({ one: rounds, together: rounds, apart: rounds }),
});

/**
 * Trains the largest GPT in a page of Chromium. One rank, two ranks, and two ranks that do not communicate take turns.
 */
export async function pageRanks(count: number): Promise<BenchResult> {
  const model = pageModels.findLast((each) => each.kind === 'gpt');
  if (model?.kind !== 'gpt') throw new RangeError('no GPT among the models');
  const label = `${model.name}, in a page, tokens/s`;
  const reason = reasonWithoutBrowser();
  if (reason !== undefined) return { rows: [[label, reason]], record: { ranks: { reason } } };
  const { browser, transport, turns } = await play({ model, rounds: count + 1, steps: STEPS });
  const [one, together, apart] = [turns.one, turns.together, turns.apart].map(times);
  if (!one || !together || !apart) throw new RangeError('three contestants');
  // A rank has the same number of tokens in each contestant.
  const tokens = model.batch * model.context;
  const rate = (ranks: number, { medianMs }: Rounds): number =>
    Math.round(tokensPerSecond(ranks * tokens, medianMs));
  const speedup = RANKS * pairedRatio(one, together);
  const limit = RANKS * pairedRatio(one, apart);
  const text = (ranks: number, of: Rounds): string =>
    `${rate(ranks, of)}, ${of.medianMs.toFixed(1)} ms a step`;
  return {
    rows: [
      [`${label}: one rank`, text(1, one)],
      [`two ranks by DDP, over ${transport}`, text(RANKS, together)],
      ['two ranks that do not communicate', text(RANKS, apart)],
      ['two ranks to one, by DDP', speedup.toFixed(2)],
      ['two ranks to one, without communication', limit.toFixed(2)],
    ],
    record: {
      ranks: {
        model: model.name,
        browser,
        transport,
        one: { ...one, tokensPerSecond: rate(1, one), losses: lossesOf(turns.one) },
        together: {
          ...together,
          tokensPerSecond: rate(RANKS, together),
          losses: lossesOf(turns.together),
        },
        apart: { ...apart, tokensPerSecond: rate(RANKS, apart) },
        speedup: round(speedup, 3),
        speedupWithoutCommunication: round(limit, 3),
      },
    },
  };
}

/** Builds a page for the task, opens it, and returns what it measured. */
async function play(task: TurnsTask): Promise<z.infer<typeof pageTurns>> {
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-page-ranks-'));
  try {
    await build({
      root: join(import.meta.dirname, 'page-ranks'),
      configFile: false,
      logLevel: 'error',
      resolve: {
        // The model is that of examples/gpt, which imports the library in the same way as scripts of `shardwise run`.
        alias: [{ find: /^shardwise$/, replacement: 'shardwise/browser' }],
        conditions: ['@shardwise/source', 'module', 'browser', 'production'],
      },
      worker: { format: 'es' },
      build: { outDir: folder, emptyOutDir: true, target: 'es2024' },
    });
    await using server = await serveFolder(folder, { isolated: true, tasks: task });
    await using _page = openPage(server.url);
    return pageTurns.parse(await server.result);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Summarizes rounds without the first one, which is a warm-up. A round takes as long as its slowest rank. */
function times(all: readonly (readonly RankTurn[])[]): Rounds {
  return summarize(
    all.slice(1).map((ranks) => [Math.max(...ranks.map(({ msPerStep }) => msPerStep))]),
  );
}

/** Returns the losses of rank 0. */
function lossesOf(all: readonly (readonly RankTurn[])[]): readonly number[] {
  return all.flatMap(([first]) => first?.losses ?? []);
}
