import { dist, fromData, init, nn } from 'shardwise';

const context = await init();
const network = () => new nn.Sequential(new nn.Linear(4, 16), new nn.Tanh(), new nn.Linear(16, 3));

for (const mistake of [false, true]) {
  const { finding, compared } = await dist.verify(
    network,
    async ({ model, optimizer, rank, worldSize, step }) => {
      const x = Float32Array.from({ length: 32 }, (_, at) => Math.sin(at * 3 + rank * 7 + step));
      const y = Int32Array.from({ length: 8 }, (_, row) => (row + rank) % 3);
      const output = model.forward(fromData(x, [8, 4], 'f32'));
      const loss = nn.functional.crossEntropy(output, fromData(y, [8], 'i32'));
      optimizer.zeroGrad();
      // The mistake: fsdp averages gradients already.
      (mistake ? loss.div(worldSize) : loss).backward();
      await optimizer.step();
    },
    dist.fsdp(),
  );
  if (context.rank !== 0) continue;
  if (finding === null) console.log(`nothing differs in ${compared} tensors`); // prints nothing differs in 43 tensors
  else console.log(`step ${finding.step}: ${finding.tensor}: ${finding.hint}`);
}
await context.close();
