import { dist, fromData, nn, optim, type Tensor } from 'shardwise';
import { GPT } from '../examples/gpt/model.ts';
import { joinBenchWorld, serveRounds } from './serve-rounds.ts';
import { type StepTimes, Training } from './training.ts';
import { largeWorkload, workload } from './workload.ts';

// This thread is one rank of one contestant of the benchmark of experts. The `batch` that it gets is a number of
// layers.

const { width, heads, context, vocabulary } = largeWorkload;
const experts = 8;
const k = 2;
const tokens = workload.batch * context;

const { rank, group, contestant, batch: layers = largeWorkload.layers } = await joinBenchWorld();
serveRounds(group, { together: await trainingOf(contestant) });

async function trainingOf(name: string): Promise<Pick<Training, 'run'>> {
  if (name === 'layer') return layerTraining();
  const gate = nn.roundRobinGate({ k });
  const model = new GPT({
    vocabularySize: vocabulary,
    contextLength: context,
    layers,
    heads,
    channels: width,
    // The dense layer computes as many products for a token as the token's experts do.
    ...(name === 'dense' ? { hiddenChannels: 4 * width * k } : { experts, gate }),
  });
  const parallel =
    name === 'ranks'
      ? await dist.parallelize(model, dist.expertParallel({ axis: 'dp', tokens }))
      : model;
  const auxiliaryLoss = (): Tensor => nn.auxiliaryLoss(model);
  return new Training(parallel, model.parameters(), { rank, auxiliaryLoss });
}

/** Returns the steps of one layer of experts, which the peer takes too. */
async function layerTraining(): Promise<Pick<Training, 'run'>> {
  const gate = nn.roundRobinGate({ k });
  const layer = new nn.MixtureOfExperts(width, 4 * width, experts, { gate });
  const parallel = await dist.parallelize(layer, dist.expertParallel({ axis: 'dp', tokens }));
  const optimizer = new optim.SGD(layer.parameters(), { lr: 0.01 });
  const values = Float32Array.from({ length: tokens * width }, (_, i) => Math.sin(i * 1.7 + rank));
  return {
    async run(steps) {
      const times: StepTimes[] = [];
      for (let step = 0; step < steps; step++) {
        const start = performance.now();
        optimizer.zeroGrad();
        const x = fromData(values.slice(), [tokens, width], 'f32').requiresGrad_();
        const loss = parallel.forward(x).square().mean();
        loss.backward();
        await optimizer.step();
        const ms = performance.now() - start;
        times.push({ ms, cpuMs: 0, buildMs: 0, graphMs: 0, loss: await loss.item() });
      }
      return times;
    },
  };
}
