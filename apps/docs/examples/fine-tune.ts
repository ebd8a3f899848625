import { addLora, generate, LlamaForCausalLM } from '@shardwise/models';
import { dist, init, manualSeed, optim, tensor } from 'shardwise';

const context = await init();
manualSeed(1);
// With a folder of your own, fromPretrained(folder, { lora: { … }, strategy: dist.fsdp() }) does all three.
const model = new LlamaForCausalLM({
  vocabSize: 32,
  hiddenSize: 64,
  intermediateSize: 128,
  numHiddenLayers: 2,
  numAttentionHeads: 4,
  maxPositionEmbeddings: 32,
});
addLora(model, { targetModules: 'all-linear', rank: 8, alpha: 32 }); // freezes all but the adapters
const parallel = await dist.parallelize(model, dist.fsdp()); // divides the weights over the ranks
const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
const optimizer = new optim.AdamW(trained, { lr: 0.01 });

for (let step = 1; step <= 60; step += 1) {
  // Each rank has other rows: numbers that count up by two.
  const rows = Array.from({ length: 8 }, (_, row) => step * 7 + row * 5 + context.rank * 3);
  const ids = tensor(
    rows.map((first) => Array.from({ length: 12 }, (_, i) => (first + 2 * i) % 32)),
    'i32',
  );
  const loss = parallel.forward(ids, { labels: ids });
  optimizer.zeroGrad();
  loss.backward();
  await optimizer.step();
  if (step % 20 === 0) console.log(`step ${step}: loss ${(await loss.item()).toFixed(2)}`);
}
const [row = []] = await generate(parallel, [[3, 5, 7]], { maxNewTokens: 5 });
console.log(row.join(' ')); // prints 3 5 7 9 11 13 15 17
await context.close();
