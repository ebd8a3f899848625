import { init, manualSeed, nn, optim, tensor } from 'shardwise';

const context = await init();
manualSeed(0);
const model = new nn.Linear(2, 1);
const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });

// Two small batches give the gradient of one batch of twice the size.
const parts = [tensor([[1, 0]]), tensor([[0, 1]])];
optimizer.zeroGrad();
for (const part of parts) {
  const loss = model.forward(part).square().mean();
  loss.div(parts.length).backward(); // adds to the gradients
}
const accumulated = await model.weight.grad?.data();

const other = new nn.Linear(2, 1);
await other.loadStateDict(await model.stateDict());
other
  .forward(
    tensor([
      [1, 0],
      [0, 1],
    ]),
  )
  .square()
  .mean()
  .backward();
console.log(String(accumulated) === String(await other.weight.grad?.data())); // prints true
await optimizer.step(); // one update
await context.close();
