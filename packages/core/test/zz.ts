import { setRank, fromData, statistics, tensor, Tensor } from '@shardwise/core';
import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { Linear } from '../src/nn/linear.ts';
import { Sequential } from '../src/nn/sequential.ts';
import { LayerNorm } from '../src/nn/layer-norm.ts';
import { Embedding } from '../src/nn/embedding.ts';
import { AdamW } from '../src/optim/adam-w.ts';
import { crossEntropy } from '../src/nn/functional/cross-entropy.ts';
import { scaledDotProductAttention } from '../src/nn/functional/attention.ts';
import { manualSeed } from '../src/random/keys.ts';
for (const device of [interpreter(), await cpu()]) {
  setRank({ device });
  manualSeed(0);
  const emb = new Embedding(7, 8);
  const m = new Sequential(new LayerNorm(8), new Linear(8, 7));
  console.log(m.toString(), m.namedParameters().map(([n]) => n).join());
  const opt = new AdamW([...emb.parameters(), ...m.parameters()], { lr: 1e-2 });
  const before = statistics().plansMade;
  for (let i = 0; i < 5; i++) {
    const idx = tensor([[1,2,3,4],[4,5,6,0]], 'i32');
    const x = emb.forward(idx).reshape([2,4,2,4]).permute([0,2,1,3]);
    const y = scaledDotProductAttention(x, x, x, { causal: true }).permute([0,2,1,3]).reshape([2,4,8]);
    const loss = crossEntropy(m.forward(y), idx);
    opt.zeroGrad();
    loss.backward();
    await opt.step();
    console.log(device.name, await loss.item(), statistics().plansMade - before);
  }
  const d = await m.stateDict();
  console.log(await m.loadStateDict(d));
  try { await m.loadStateDict({ ...d, x: d['0.weight']!, '1.bias': d['0.weight']! }) } catch (e) { console.log(String(e)); }
}
