import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { build } from 'vite';
import { z } from 'zod';

/** What a page with a GPT imports; `use` has the bundler keep it. */
const gpt = `
  import { data, init, manualSeed, nn, noGrad, optim } from 'shardwise/browser';
  use(data.TextDataset, init, manualSeed, nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList);
  use(nn.functional.crossEntropy, nn.functional.scaledDotProductAttention, noGrad, optim.AdamW);
`;

const programs = {
  page: `import { startRanks } from 'shardwise/browser'; use(startRanks);`,
  'one rank': gpt,
  ddp: `${gpt} import { ddp, parallelize } from 'shardwise/browser'; use(ddp, parallelize);`,
} as const;

const output = z.object({
  output: z.array(z.object({ fileName: z.string(), code: z.string() })),
});

/** Kilobytes of each chunk, compressed. */
async function chunksOf(program: string): Promise<{ name: string; kilobytes: number }[]> {
  const entry = join(import.meta.dirname, 'entry.js');
  const built = await build({
    root: import.meta.dirname,
    configFile: false,
    logLevel: 'error',
    resolve: { conditions: ['@shardwise/source', 'module', 'browser', 'production'] },
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === 'entry' ? entry : null),
        load: (id) =>
          id === entry ? `const use = (...all) => console.log(all); ${program}` : null,
      },
    ],
    build: {
      write: false,
      target: 'es2024',
      modulePreload: false,
      rolldownOptions: { input: 'entry' },
    },
  });
  return output.parse(Array.isArray(built) ? built[0] : built).output.map(({ fileName, code }) => ({
    name: fileName.replace(/^assets\//, ''),
    kilobytes: gzipSync(code, { level: 9 }).length / 1000,
  }));
}

/** What is loaded: of what an import() brings, what the rank uses. */
async function loadedKilobytes(program: string, unused: RegExp): Promise<number> {
  const chunks = await chunksOf(program);
  return chunks
    .filter(({ name }) => !unused.test(name))
    .reduce((sum, { kilobytes }) => sum + kilobytes, 0);
}

/** WebGPU's kernels, and what several ranks communicate by. */
const webGpu = /^src-/;
/** The charts of a report, which come when it is asked for. */
const report = /^html-report-/;
/** What one rank does not load either: how several communicate, and the arithmetic of reductions. */
const webGpuAndWorld = /^(src|join-page-world|reduce-elements)-/;

it('a page that starts ranks loads little, and a rank what it uses', async () => {
  const [page, alone, shared] = [
    await loadedKilobytes(programs.page, report),
    await loadedKilobytes(programs['one rank'], webGpuAndWorld),
    await loadedKilobytes(programs.ddp, webGpu),
  ];
  expect(page).toBeLessThan(12);
  expect(alone).toBeLessThan(128);
  expect(shared).toBeLessThan(170);
});
