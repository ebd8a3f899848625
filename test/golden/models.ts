import { nn, type Tensor } from 'shardwise';
import { GPT } from '../../examples/gpt/model.ts';

// These are the models of tools/golden-training.py, with the same names in the same order of construction.

export type GoldenModel = nn.Module & {
  /** Returns logits with the classes in the last dim. */
  forward(inputs: Tensor): Tensor;
};

const mlp = { inputs: 7, hidden: 13, classes: 5 };

class Mlp extends nn.Module {
  readonly up = new nn.Linear(mlp.inputs, mlp.hidden);
  readonly norm = new nn.LayerNorm(mlp.hidden);
  readonly down = new nn.Linear(mlp.hidden, mlp.classes);

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.norm.forward(this.up.forward(x).gelu()));
  }
}

class Cnn extends nn.Module {
  readonly conv1 = new nn.Conv2d(1, 6, 3, { padding: 1 });
  readonly conv2 = new nn.Conv2d(6, 9, 3, { stride: 2, padding: 1, groups: 3 });
  readonly head = new nn.Linear(9 * 2 * 2, 5);

  /** Shape: x [B, 1, 9, 9] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const pooled = nn.functional.maxPool2d(this.conv1.forward(x).relu(), 2); // [B, 6, 4, 4]
    return this.head.forward(this.conv2.forward(pooled).relu().flatten(1));
  }
}

const gpt = { layers: 2, channels: 24, heads: 3, contextLength: 12, vocabularySize: 31 };

class Block extends nn.Module {
  readonly norm1 = new nn.LayerNorm(gpt.channels);
  readonly attention = new nn.MultiheadAttention(gpt.channels, gpt.heads);
  readonly norm2 = new nn.LayerNorm(gpt.channels);
  readonly up = new nn.Linear(gpt.channels, 4 * gpt.channels);
  readonly down = new nn.Linear(4 * gpt.channels, gpt.channels);

  forward(x: Tensor): Tensor {
    const attended = x.add(this.attention.forward(this.norm1.forward(x), { causal: true }));
    return attended.add(this.down.forward(this.up.forward(this.norm2.forward(attended)).gelu()));
  }
}

/** A GPT with MultiheadAttention whose token embedding and head share one matrix. */
class TiedGpt extends nn.Module {
  readonly tokens = new nn.Embedding(gpt.vocabularySize, gpt.channels);
  readonly positions = new nn.Embedding(gpt.contextLength, gpt.channels);
  readonly blocks = new nn.ModuleList(Array.from({ length: gpt.layers }, () => new Block()));
  readonly norm = new nn.LayerNorm(gpt.channels);
  readonly head = new nn.Linear(gpt.channels, gpt.vocabularySize, { bias: false });

  constructor() {
    super();
    this.head.weight = this.tokens.weight;
  }

  /** Shape: ids i32 [B, T] -> [B, T, V]. */
  forward(ids: Tensor): Tensor {
    let x = this.tokens.forward(ids).add(this.positions.weight);
    for (const block of this.blocks) x = block.forward(x);
    return this.head.forward(this.norm.forward(x));
  }
}

export const goldenModels = {
  mlp: () => new Mlp(),
  cnn: () => new Cnn(),
  gpt: () => new GPT(gpt),
  'gpt-tied': () => new TiedGpt(),
} satisfies Record<string, () => GoldenModel>;

export type GoldenName = keyof typeof goldenModels;

export const goldenNames = [
  'mlp',
  'cnn',
  'gpt',
  'gpt-tied',
] as const satisfies readonly GoldenName[];
