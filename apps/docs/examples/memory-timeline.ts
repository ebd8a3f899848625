import { init, nn, ones, optim, profiler } from 'shardwise';

const context = await init();
const model = new nn.Sequential(new nn.Linear(64, 256), new nn.GELU(), new nn.Linear(256, 16));
const optimizer = new optim.AdamW(model.parameters());

async function step(): Promise<void> {
  optimizer.zeroGrad();
  model
    .forward(ones([512, 64]))
    .square()
    .mean()
    .backward();
  await optimizer.step();
}

await step(); // makes the plan and the states of the optimizer
const timeline = profiler.memoryTimeline({ model, optimizer });
await step();
const { peak } = await timeline.stop();
for (const { bytes, category, module, operation } of peak.blocks.slice(0, 2)) {
  console.log(`${bytes} bytes of ${category} by ${module}: ${operation}`);
}
// prints 524288 bytes of activations by 0: add [512, 256] f32, forward
const named = peak.blocks.reduce((sum, { bytes }) => sum + bytes, 0);
console.log(`all ${named === peak.bytes ? 'bytes are' : 'bytes are not'} named`); // prints all bytes are named
await context.close();
