import { autocast, init, nn, ones, tensor } from 'shardwise';

const context = await init();
const model = new nn.Linear(4, 3);
const loss = autocast({ dtype: 'bf16' }, () => {
  const logits = model.forward(ones([2, 4]));
  console.log(logits.dtype); // prints bf16
  return nn.functional.crossEntropy(logits, tensor([0, 2], 'i32'));
});
console.log(loss.dtype, model.weight.dtype); // prints f32 f32
await context.close();
