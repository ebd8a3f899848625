import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { build } from 'vite';
import { z } from 'zod';

/** The imports of a page with a GPT. `use` makes the bundler keep them. */
const gpt = `
  import { data, init, manualSeed, nn, noGrad, optim } from 'shardwise/browser';
  use(data.TextDataset, init, manualSeed, nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList);
  use(nn.functional.crossEntropy, nn.functional.scaledDotProductAttention, noGrad, optim.AdamW);
`;

const programs = {
  page: `import { startRanks } from 'shardwise/browser'; use(startRanks);`,
  'one rank': gpt,
  ddp: `${gpt} import { dist } from 'shardwise/browser'; use(dist.ddp, dist.parallelize);`,
} as const;

const output = z.object({
  output: z.array(
    z.object({
      fileName: z.string(),
      code: z.string(),
      isEntry: z.boolean(),
      imports: z.array(z.string()),
      dynamicImports: z.array(z.string()),
      modules: z.record(z.string(), z.object({ code: z.string().nullable() })),
    }),
  ),
});

interface Chunk {
  readonly fileName: string;
  /** The compressed size. */
  readonly kilobytes: number;
  readonly isEntry: boolean;
  /** The chunks that are loaded together with this one. */
  readonly imports: readonly string[];
  readonly dynamicImports: readonly string[];
  /** The paths of the modules whose code is in the chunk. */
  readonly modules: readonly string[];
}

async function chunksOf(program: string): Promise<readonly Chunk[]> {
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
  return output.parse(Array.isArray(built) ? built[0] : built).output.map((chunk) => ({
    ...chunk,
    modules: Object.keys(chunk.modules).filter((path) => chunk.modules[path]?.code),
    kilobytes: gzipSync(chunk.code, { level: 9 }).length / 1000,
  }));
}

/**
 * Returns the chunks that are loaded. Chunks that an import() brings count too, except for those that match `unused`
 * and what only these need.
 */
function loadedChunks(chunks: readonly Chunk[], unused: RegExp): readonly Chunk[] {
  const loaded = new Set<string>();
  const load = (fileName: string): void => {
    if (loaded.has(fileName)) return;
    loaded.add(fileName);
    const chunk = chunks.find((each) => each.fileName === fileName);
    if (chunk === undefined) throw new RangeError(`no chunk ${fileName}`);
    chunk.imports.forEach(load);
    chunk.dynamicImports.filter((name) => !unused.test(name)).forEach(load);
  };
  chunks.filter(({ isEntry }) => isEntry).forEach(({ fileName }) => load(fileName));
  return chunks.filter(({ fileName }) => loaded.has(fileName));
}

function loadedKilobytes(chunks: readonly Chunk[], unused: RegExp): number {
  return loadedChunks(chunks, unused).reduce((sum, { kilobytes }) => sum + kilobytes, 0);
}

/** The charts of a report. They are loaded when a report is requested. */
const report = /html-report-/;
/** Chunks that a GPT on WebAssembly loads only when they are needed. */
const onDemand = {
  src: "WebGPU's kernels",
  'reduce-elements': 'reductions that have factors',
  'rows-of': 'messages of rows',
  'concats-in-place': 'concatenations of values of several steps',
  'run-in-pieces': 'long programs',
  'plan-difference': 'warnings of plans that serve one run each',
  'relate-sizes': 'plans for sizes that vary',
  'compile-sized': 'programs for sizes that vary',
  'link-loop': 'operations without kernels',
  'start-transfer': 'values that are paged out',
  safetensors: 'states that ranks send',
  'state-mismatch': 'saved models that do not fit',
  'index-error': 'indices out of range',
  'wasm-groups': 'products of experts',
  'failed-run': 'what a run that fails leaves',
  'failure-of': 'runs that fail',
  'loaded-on-demand': 'parameters in parts or in fewer bits',
  'page-saver': 'checkpoints',
  'collect-garbage': 'memory that does not suffice',
  'exchange-names': 'what ranks tell each other when their calls differ',
};
const unused = new RegExp(`/(${Object.keys(onDemand).join('|')})-`);
const alone = new RegExp(
  `${unused.source}|(out-of-plan-message|join-ports|join-threads-world|kept-results|start-collective)-`,
);
const sharing = new RegExp(`${unused.source}|join-ports-`);
const sending = new RegExp(`${unused.source}|join-threads-world-`);

it('a page that starts ranks loads little, and a rank what it uses', async () => {
  const [page, one, ddp] = [
    await chunksOf(programs.page),
    await chunksOf(programs['one rank']),
    await chunksOf(programs.ddp),
  ];
  expect(loadedKilobytes(page, report)).toBeLessThan(12);
  expect(loadedKilobytes(one, alone)).toBeLessThan(127.4);
  expect(loadedKilobytes(ddp, sharing)).toBeLessThan(164.9);
  expect(loadedKilobytes(ddp, sending)).toBeLessThan(169.4);
});

it('ddp loads nothing of strategies and layers that a page does not import, and nothing of machine code', async () => {
  const loaded = loadedChunks(await chunksOf(programs.ddp), sending).flatMap(({ modules }) =>
    modules.map((path) => path.replaceAll('\\', '/')),
  );
  expect(loaded).toContainEqual(expect.stringMatching(/distributed-data-parallel\/reducer\.ts$/));
  const others =
    /parameter-server\/src|strategies\/src\/(sharded|optimizers|pipeline|tensor-parallel)|nn\/experts\/(?!sequence-axes)/;
  expect(loaded.filter((path) => others.test(path))).toEqual([]);
  const machineCode =
    /backend-cpu\/src\/(emit\/(x64|arm64)|lanes\/(row|elementwise)-loop|plan\/attention\/(plan-attention|attention-work))/;
  expect(loaded.filter((path) => machineCode.test(path))).toEqual([]);
});
