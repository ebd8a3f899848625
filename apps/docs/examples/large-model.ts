import { dist, init, manualSeed, nn, ones, optim } from 'shardwise';

const context = await init();
manualSeed(0); // the same on all ranks
const build = () => new nn.Sequential(new nn.Linear(256, 256), new nn.Linear(256, 256));
const model = dist.constructSharded(build, dist.fsdp()); // a rank holds its parts only
const parallel = await dist.parallelize(model, dist.fsdp());
const optimizer = new optim.AdamW(model.parameters());

parallel
  .forward(ones([4, 256]))
  .mean()
  .backward();
await optimizer.step();
const { parameterBytes, optimizerBytes } = dist.memory({ model, optimizer });
console.log(`${parameterBytes} bytes of parameters, ${optimizerBytes} of states`);
console.log(parameterBytes <= 2 * (256 * 256 + 256) * 4); // prints true
await context.close();
