import {
  type Backend,
  fromData,
  manualSeed,
  nn,
  optim,
  randn,
  setRank,
  type Tensor,
} from 'shardwise';
import { GPT } from '../examples/gpt/model.ts';
import type { PageModel } from './page-models.ts';
import type { PageContestant } from './page-peer.ts';
import { prepareMatmul } from './prepare-matmul.ts';

/** Makes this library a contestant. It computes on a device, in this thread. */
export function ours(device: Backend, about: string): PageContestant {
  setRank({ device });
  const made = new Map<string, () => Promise<number>>();
  const make = async (key: string, build: () => Promise<() => Promise<number>>) => {
    const run = made.get(key) ?? (await build());
    made.set(key, run);
    return run;
  };
  const multiplier = async (size: number, together: number) => {
    const square = [size, size];
    const product = { a: square, b: square, transposeA: false, transposeB: false, count: 1 };
    const { run } = await prepareMatmul(device, product, 'f32');
    return async () => {
      for (let index = 0; index < together; index++) await run();
      await device.sync();
      return 0;
    };
  };
  return {
    about,
    ask: async (request) => {
      const { runs, mostMs = Infinity } = request;
      const run =
        request.kind === 'matmul'
          ? await make(`matmul ${request.size} ${request.together ?? 1}`, () =>
              multiplier(request.size, request.together ?? 1),
            )
          : await make(request.model.name, async () => stepper(request.model));
      const [ms, losses]: [number[], number[]] = [[], []];
      const before = process.cpuUsage();
      const begun = performance.now();
      for (let index = 0; index < runs; index++) {
        if (index > 0 && performance.now() - begun > mostMs) break;
        const start = performance.now();
        const loss = await run();
        ms.push(performance.now() - start);
        if (request.kind === 'train') losses.push(loss);
      }
      const { user, system } = process.cpuUsage(before);
      return { ms, cpuMs: (user + system) / 1000 / ms.length, losses };
    },
    close: async () => {},
  };
}

/** Returns a step of Adam that returns the loss. */
function stepper(of: PageModel): () => Promise<number> {
  manualSeed(1);
  const { parameters, lossOf } = of.kind === 'mlp' ? mlp(of) : gpt(of);
  const optimizer = new optim.Adam(parameters, { lr: 1e-3 });
  return async () => {
    optimizer.zeroGrad();
    const loss = lossOf();
    loss.backward();
    await optimizer.step();
    return loss.item();
  };
}

interface Trained {
  readonly parameters: nn.Parameter[];
  readonly lossOf: () => Tensor;
}

function mlp({ widths, batch }: Extract<PageModel, { kind: 'mlp' }>): Trained {
  const layers = widths
    .slice(1)
    .flatMap((to, index) => [new nn.Linear(widths[index] ?? 0, to), new nn.ReLU()]);
  const model = new nn.Sequential(...layers.slice(0, -1));
  const x = randn([batch, widths[0] ?? 0]);
  const labels = Int32Array.from({ length: batch }, (_, row) => row % (widths.at(-1) ?? 1));
  const y = fromData(labels, [batch], 'i32');
  return {
    parameters: model.parameters(),
    lossOf: () => nn.functional.crossEntropy(model.forward(x), y),
  };
}

function gpt(model: Extract<PageModel, { kind: 'gpt' }>): Trained {
  const { layers, heads, channels, context, vocabulary, batch, tokens } = model;
  const built = new GPT({
    vocabularySize: vocabulary,
    contextLength: context,
    layers,
    heads,
    channels,
  });
  const ids = tokens.map((each) => fromData(Int32Array.from(each), [batch, context], 'i32'));
  const [x, y] = ids;
  if (x === undefined || y === undefined) throw new RangeError('bytes, and those that follow them');
  return {
    parameters: built.parameters(),
    lossOf: () => nn.functional.crossEntropy(built.forward(x).flatten(0, 1), y.flatten()),
  };
}
