import { Tokenizer } from '@shardwise/data';

// In Node, loadTokenizer(folder) of @shardwise/data/node reads the files of a model.
const tokenizer = Tokenizer.fromJson(
  {
    normalizer: { type: 'BertNormalizer' },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    model: {
      type: 'WordPiece',
      vocab: { '[PAD]': 0, '[UNK]': 1, train: 2, '##ing': 3, on: 4, many: 5, ranks: 6 },
      unk_token: '[UNK]',
    },
    decoder: { type: 'WordPiece' },
  },
  { config: { pad_token: '[PAD]' } },
);

const { inputIds, attentionMask } = tokenizer.encodeBatch(['Training on ranks', 'many ranks']);
console.log(inputIds.shape, inputIds.data.join(' ')); // prints [ 2, 4 ] 2 3 4 6 5 6 0 0
console.log(attentionMask.data.join(' ')); // prints 1 1 1 1 1 1 0 0

// Tokens that come one after another, as in generation.
const stream = tokenizer.decodeStream();
for (const id of [2, 3, 4]) console.log(`'${stream.push(id)}'`);
// prints 'train'
// prints 'ing'
// prints ' on'
