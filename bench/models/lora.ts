import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { BenchResult } from '../bench.ts';
import { median, round } from '../summary.ts';
import { writeFolder } from './folders.ts';
import { type LoraOfRun, loraOfRun } from './lora-messages.ts';
import { divisions, inScratch, type Part } from './measure.ts';

const run = promisify(execFile);

/** Adapters of rank 8 for all linear layers of a Llama of 1.1 billion parameters in bf16 under FSDP. */
export const lora: Part = {
  about:
    'LoRA of a Llama of 1.1 billion parameters in bf16 under FSDP: steps of 256 tokens per rank',
  run: () =>
    inScratch(async (folder): Promise<BenchResult> => {
      await writeFolder('llama', 'bf16', folder);
      const rows: (readonly [string, string])[] = [];
      const record: Record<string, unknown> = {};
      for (const { ranks, threads } of divisions) {
        const name = `${ranks} × ${threads}`;
        const found = summaryOf(await trainOnce([folder, String(ranks), String(threads)]));
        record[name] = found;
        rows.push([
          `LoRA, ${name}`,
          `${found.stepMs} ms a step; peak ${found.peakRatio} of the formula, resident ${found.residentOfStepsRatio} (${found.residentRatio} with loading)`,
        ]);
      }
      return { rows, record };
    }),
};

async function trainOnce(args: readonly string[]): Promise<LoraOfRun> {
  const script = fileURLToPath(new URL('./lora-run.ts', import.meta.url));
  const { stdout } = await run(
    process.execPath,
    ['--conditions=@shardwise/source', '--expose-gc', script, ...args],
    { env: { ...process.env, NODE_OPTIONS: '' } },
  );
  return loraOfRun.parse(JSON.parse(stdout));
}

function summaryOf({ ranks, residentGrowthBytes, residentOfStepsBytes }: LoraOfRun) {
  const sum = (of: (rank: LoraOfRun['ranks'][number]) => number): number =>
    ranks.reduce((total, rank) => total + of(rank), 0);
  const formulaBytes = sum((rank) => rank.statesBytes + rank.activationBytes + rank.unitBytes);
  const [first] = ranks;
  const steps = first?.ms.map((_, step) => Math.max(...ranks.map(({ ms }) => ms[step] ?? 0))) ?? [];
  return {
    stepMs: round(median(steps), 0),
    formulaBytes,
    peakRatio: round(sum(({ peakBytes }) => peakBytes) / formulaBytes, 3),
    residentOfStepsRatio: round(residentOfStepsBytes / formulaBytes, 3),
    residentRatio: round(residentGrowthBytes / formulaBytes, 3),
    ranks,
  };
}
