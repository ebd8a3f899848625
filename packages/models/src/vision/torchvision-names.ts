/**
 * The name in a residual network of a tensor of torchvision's `resnet18`, …, `resnet152`. Other names stay as they are.
 *
 *     layer2.0.conv1.weight -> resnet.encoder.stages.1.layers.0.layer.0.convolution.weight
 */
export function nameOfTorchvision(name: string): string {
  const layer = /^layer([1-9])\.(\d+)\.(.+)\.(\w+)$/.exec(name);
  if (layer !== null) {
    const [, stage = '', block = '', part = '', kind = ''] = layer;
    const own = partOf(part);
    if (own === null) return name;
    return `resnet.encoder.stages.${Number(stage) - 1}.layers.${block}.${own}.${kind}`;
  }
  const outer = /^(conv1|bn1|fc)\.(\w+)$/.exec(name);
  if (outer === null) return name;
  const [, part = '', kind = ''] = outer;
  if (part === 'fc') return `classifier.1.${kind}`;
  return `resnet.embedder.embedder.${part === 'bn1' ? 'normalization' : 'convolution'}.${kind}`;
}

/** The name of a part of a block: convolutions with their norms, and those of the shortcut. */
function partOf(part: string): string | null {
  if (part === 'downsample.0') return 'shortcut.convolution';
  if (part === 'downsample.1') return 'shortcut.normalization';
  const [, kind, number] = /^(conv|bn)([1-3])$/.exec(part) ?? [];
  if (kind === undefined) return null;
  return `layer.${Number(number) - 1}.${kind === 'bn' ? 'normalization' : 'convolution'}`;
}
