import type { DefaultTheme } from 'vitepress';

type Items = DefaultTheme.SidebarItem[];

const group = (
  text: string,
  folder: string,
  pages: readonly (readonly [string, string])[],
): Items => [
  { text, items: pages.map(([title, page]) => ({ text: title, link: `/${folder}/${page}` })) },
];

/** Pages that are written by hand, in the order in which they are read. */
export const sections: { readonly learn: Items; readonly guides: Items; readonly explore: Items } =
  {
    learn: group('Learn', 'learn', [
      ['Start here', ''],
      ['1. Train on one rank', 'one-rank'],
      ['2. More ranks, same code', 'more-ranks'],
      ['3. What an all-reduce does', 'all-reduce'],
      ['4. Divide states and parameters', 'sharding'],
      ['5. Split layers', 'tensor-parallel'],
      ['6. Pipelines', 'pipelines'],
      ['7. Combine: meshes', 'meshes'],
      ['8. Precision', 'precision'],
      ['9. Checkpoints and failures', 'checkpoints'],
      ['10. To a cluster', 'cluster'],
    ]),
    guides: group('Guides', 'guides', [
      ['All guides', ''],
      ['Launch ranks', 'launch'],
      ['Load data', 'data'],
      ['Tokenize and stream data', 'text-data'],
      ['Fine-tune your own model', 'fine-tune'],
      ['Serve a model', 'serve'],
      ['Plan a run', 'plan'],
      ['Memory is too large', 'memory'],
      ['Sequences are too long', 'context-parallel'],
      ['Steps are slow', 'slow-steps'],
      ['Links are slow', 'slow-links'],
      ['Debug a hang', 'debugging'],
      ['Check a parallel run', 'verify'],
      ['Tensors on several ranks', 'distributed-tensors'],
      ['Is my cluster all right?', 'cluster'],
      ['Write a strategy', 'strategy'],
      ['Write a collective', 'collective'],
      ['Write a backend', 'backend'],
      ['Use single packages', 'packages'],
      ['Move from PyTorch', 'from-pytorch'],
      ['Move from DeepSpeed', 'from-deepspeed'],
      ['Move from TensorFlow.js', 'from-tensorflow-js'],
      ['Move from others', 'from-others'],
      ['Compare libraries', 'comparison'],
    ]),
    explore: group('Explore', 'explore', [
      ['What you can try', ''],
      ['Training', 'training'],
      ['DDP beside FSDP', 'ddp-fsdp'],
      ['Learning to add', 'addition'],
      ['Learning a text', 'text'],
      ['Experts', 'experts'],
      ['Parameter servers', 'servers'],
      ['Two layers, split', 'layer'],
      ['A sequence, shared', 'sequence'],
      ['Microbatches in motion', 'microbatches'],
      ['A hang', 'hang'],
      ['Pipeline schedules', 'pipelines'],
      ['Collectives', 'collectives'],
      ['Meshes and layouts', 'layouts'],
      ['Memory', 'memory'],
      ['Benchmark', 'benchmark'],
      ['Playground', 'playground'],
    ]),
  };
