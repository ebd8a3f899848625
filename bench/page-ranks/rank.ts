// This is a rank of the page of `bench page`. It trains for a round whenever it is told to.
import { dist, fromData, init, manualSeed, nn, optim, type Tensor } from 'shardwise/browser';
import { GPT } from '../../examples/gpt/model.ts';
import type { RankOrder, RankTask, RankTurn } from './contestants.ts';

const context = await init();
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the page of this benchmark has posted it
const { contestant, model: of, steps } = context.data as RankTask;

manualSeed(1);
const model = new GPT({
  vocabularySize: of.vocabulary,
  contextLength: of.context,
  layers: of.layers,
  heads: of.heads,
  channels: of.channels,
});
const trained = contestant === 'together' ? await dist.parallelize(model, dist.ddp()) : model;
const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
/** Returns the bytes, or the bytes that follow them. */
const idsOf = (place: 0 | 1): Tensor =>
  fromData(Int32Array.from(of.tokens[place] ?? []), [of.batch, of.context], 'i32');
const [x, y] = [idsOf(0), idsOf(1)];

async function train(): Promise<number> {
  optimizer.zeroGrad();
  const loss = nn.functional.crossEntropy(trained.forward(x).flatten(0, 1), y.flatten());
  loss.backward();
  await optimizer.step();
  return loss.item();
}

const orders = new BroadcastChannel(contestant);
orders.addEventListener('message', ({ data }: MessageEvent<RankOrder>) => {
  void (data === 'round' ? playRound() : context.close());
});
context.send('ready');

async function playRound(): Promise<void> {
  const losses: number[] = [];
  const start = performance.now();
  for (let step = 0; step < steps; step++) losses.push(await train());
  context.send({ msPerStep: (performance.now() - start) / steps, losses } satisfies RankTurn);
}
