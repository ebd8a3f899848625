import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { LlamaForCausalLM } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { cpu, manualSeed, setRank } from 'shardwise';
import type { Bench, BenchResult } from '../bench.ts';
import { median, round } from '../summary.ts';
import { loadOfRun, type LoadOfRun } from './load-messages.ts';
import { modelSizes, smallSizes } from './model-sizes.ts';

const RANKS = 2;
const ROUNDS = 3;
const run = promisify(execFile);

/** Measures how fast the ranks of FSDP load a folder of safetensors, beside a plain read of the same bytes. */
export const load: Bench = {
  about: `Loading a folder of 500 MB on ${RANKS} ranks with FSDP, beside a plain read of the file by ${RANKS} threads`,
  run: async (): Promise<BenchResult> => {
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-bench-load-'));
    try {
      const folders = [join(directory, 'model'), join(directory, 'small')] as const;
      setRank({ device: await cpu() });
      manualSeed(0);
      await savePretrained(new LlamaForCausalLM(modelSizes), folders[0]);
      await savePretrained(new LlamaForCausalLM(smallSizes), folders[1]);
      const rounds: LoadOfRun[] = [];
      for (let index = 0; index < ROUNDS; index++) rounds.push(await loadOnce(folders));
      return describe(rounds);
    } finally {
      await rm(directory, { recursive: true });
    }
  },
};

async function loadOnce(folders: readonly string[]): Promise<LoadOfRun> {
  const script = fileURLToPath(new URL('./load-run.ts', import.meta.url));
  const { stdout } = await run(
    process.execPath,
    ['--conditions=@shardwise/source', '--expose-gc', script, ...folders, String(RANKS)],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  );
  return loadOfRun.parse(JSON.parse(stdout));
}

function describe(rounds: readonly LoadOfRun[]): BenchResult {
  const slowest = (of: LoadOfRun, key: 'readMs' | 'buildMs' | 'loadMs'): number =>
    Math.max(...of.ranks.map((rank) => rank[key]));
  const medianOf = (key: 'readMs' | 'buildMs' | 'loadMs'): number =>
    median(rounds.map((each) => slowest(each, key)));
  const partBytes = ({ ranks }: LoadOfRun): number =>
    ranks.reduce((sum, rank) => sum + rank.partBytes, 0);
  const speed = median(rounds.map((each) => slowest(each, 'readMs') / slowest(each, 'loadMs')));
  const growth = median(rounds.map((each) => each.residentGrowthBytes / partBytes(each)));
  const [readMs, buildMs, loadMs] = [medianOf('readMs'), medianOf('buildMs'), medianOf('loadMs')];
  const [first] = rounds;
  return {
    rows: [
      ['bytes of the file', String(first?.fileBytes)],
      ['plain read', `${round(readMs, 0)} ms`],
      ['building the model in parts', `${round(buildMs, 0)} ms`],
      ['loading', `${round(loadMs, 0)} ms`],
      ['speed of loading relative to the plain read', String(round(speed, 2))],
      ['resident growth relative to the parts', String(round(growth, 3))],
    ],
    record: {
      ranks: RANKS,
      readMs: round(readMs, 1),
      buildMs: round(buildMs, 1),
      loadMs: round(loadMs, 1),
      speedOfPlainRead: round(speed, 3),
      residentGrowthOfParts: round(growth, 4),
      rounds,
    },
  };
}
