// The rank of contract.html. It tests the contract of backends on its device, and then measures.
import { backendSuite, runSuite } from '@shardwise/testing';
import { fromData, Generator, init, manualSeed, nn, optim, randn } from 'shardwise/browser';
import { GPT } from '../gpt/model.ts';
import type { ContractFinding } from './contract-finding.ts';
import { batchSize, contextLength, sizes } from './settings.ts';

const productSizes = [256, 512, 1024];
const productRuns = 5;
const trainedModels = ['small', 'medium'] as const;
/** The first steps are not counted, because they compile. */
const [uncountedSteps, countedSteps] = [2, 5];

const context = await init();
const { device } = context;
const find = (finding: ContractFinding): void => context.send(finding);

const suite = backendSuite({
  name: device.name,
  create: async () => device,
  ...(device.usage === undefined ? {} : { bytesInUse: () => device.usage?.().bytesInUse ?? 0 }),
});
find({ kind: 'begun', tests: suite.tests.length, adapter: await adapterText() });
await runSuite(suite, ({ groups, name }, outcome) => {
  const { status } = outcome;
  const reason =
    status === 'passed' ? '' : status === 'skipped' ? outcome.reason : String(outcome.error);
  find({ kind: 'test', name: [...groups, name].join(' › '), status, reason });
});

manualSeed(1);
for (const size of productSizes) await measureProduct(size);
for (const name of trainedModels) await measureTraining(name);
await context.close();

/** Returns what WebGPU says of the adapter. Returns '' on WebAssembly. */
async function adapterText(): Promise<string> {
  if (context.deviceChoice.kind === 'wasm') return '';
  const {
    vendor,
    architecture,
    device: model,
    description,
  } = (await navigator.gpu.requestAdapter())?.info ?? {};
  return [vendor, architecture, model, description].filter(Boolean).join(', ') || 'unnamed';
}

async function measureProduct(size: number): Promise<void> {
  const [a, b] = [randn([size, size]), randn([size, size])];
  await a.realize();
  await b.realize();
  let leastMs = Infinity;
  for (let run = 0; run < productRuns; run++) {
    const began = performance.now();
    // Only one element is read. So the time includes the whole product, and no long transfer.
    await a.matmul(b).slice(0, 0, 1).slice(1, 0, 1).data();
    leastMs = Math.min(leastMs, performance.now() - began);
  }
  find({
    kind: 'measured',
    what: `product of two ${size} × ${size} matrices in f32, best of ${productRuns}`,
    figure: `${leastMs.toFixed(2)} ms, ${((2 * size ** 3) / leastMs / 1e6).toFixed(1)} GFLOP/s`,
  });
}

async function measureTraining(name: (typeof trainedModels)[number]): Promise<void> {
  const model = new GPT({ vocabularySize: 256, contextLength, ...sizes[name] });
  const count = model.parameters().reduce((sum, weight) => sum + weight.numel, 0);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const draws = new Generator(1);
  const bytes = (): Int32Array =>
    Int32Array.from(draws.rand(batchSize * contextLength), (share) => Math.floor(share * 256));
  const times: number[] = [];
  for (let step = 0; step < uncountedSteps + countedSteps; step++) {
    const began = performance.now();
    const x = fromData(bytes(), [batchSize, contextLength], 'i32');
    const y = fromData(bytes(), [batchSize, contextLength], 'i32');
    optimizer.zeroGrad();
    const loss = nn.functional.crossEntropy(model.forward(x).flatten(0, 1), y.flatten());
    loss.backward();
    await optimizer.step();
    await loss.item();
    if (step >= uncountedSteps) times.push(performance.now() - began);
  }
  const medianMs = times.toSorted((a, b) => a - b)[Math.floor(countedSteps / 2)] ?? Number.NaN;
  const rate = (batchSize * contextLength * 1000) / medianMs;
  find({
    kind: 'measured',
    what: `a step of a GPT with ${(count / 1e6).toFixed(1)} M weights, ${batchSize} × ${contextLength} tokens, AdamW`,
    figure: `${medianMs.toFixed(0)} ms, ${Math.round(rate).toLocaleString('en')} tokens a second`,
  });
}
