import { Accuracy, ImageProcessor, processImages, rowDataset } from '@shardwise/data';
import { decodeImage, readImageFolder } from '@shardwise/data/node';
import { ViTForImageClassification } from '@shardwise/models';
import { data, dist, fromArray, init, manualSeed, noGrad, optim } from 'shardwise';

const context = await init();
manualSeed(1);
const [folder = 'train'] = process.argv.slice(2); // train/cat/1.jpg, train/dog/2.png
const images = await readImageFolder(folder);
// With weights of your own: await loadImageProcessor('vit-base') of @shardwise/data/node.
const processor = ImageProcessor.fromJson({
  image_processor_type: 'ViTImageProcessor',
  size: { height: 16, width: 16 },
});
const rows = processImages(images, { processor, decode: decodeImage });
const dataset = rowDataset(rows, (sample) => sample);

// With weights of your own: await fromPretrained('vit-base', { … }) of @shardwise/models/node.
const model = new ViTForImageClassification({
  imageSize: 16,
  patchSize: 4,
  hiddenSize: 32,
  intermediateSize: 64,
  numHiddenLayers: 2,
  numAttentionHeads: 4,
  numLabels: images.classes.length,
});
const parallel = await dist.parallelize(model, dist.ddp());
const optimizer = new optim.AdamW(model.parameters(), { lr: 3e-3 });
const sampler = new data.DistributedSampler({
  dataset,
  numReplicas: context.worldSize,
  rank: context.rank,
});
const loader = new data.DataLoader({ dataset, sampler, batchSize: 8 });
for (let epoch = 0; epoch < 10; epoch += 1) {
  sampler.setEpoch(epoch);
  for await (const { pixelValues, labels } of loader) {
    const loss = parallel.forward(fromArray(pixelValues), { labels: fromArray(labels) });
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
  }
}

sampler.setEpoch(0);
const accuracy = new Accuracy({ sampler });
for await (const { pixelValues, labels } of loader) {
  await accuracy.update(
    noGrad(() => parallel.forward(fromArray(pixelValues))),
    fromArray(labels),
  );
}
const share = await accuracy.compute(); // of all ranks
if (context.rank === 0) {
  console.log(`${images.classes.join(' or ')}: ${(100 * share).toFixed(0)} % right`);
}
await context.close();
