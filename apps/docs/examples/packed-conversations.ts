import { conversationSample, packDocuments, Tokenizer } from '@shardwise/data';

const words = [
  '[PAD]',
  '?',
  '<user>',
  '<assistant>',
  '<end>',
  'who',
  'sums',
  'the',
  'ranks',
  'all',
];
const special = words.slice(2, 5).map((content, i) => ({ id: i + 2, content, special: true }));
const tokenizer = Tokenizer.fromJson(
  {
    added_tokens: special,
    pre_tokenizer: { type: 'WhitespaceSplit' },
    model: {
      type: 'WordPiece',
      vocab: Object.fromEntries(words.map((word, id) => [word, id])),
      unk_token: '?',
    },
  },
  {
    chatTemplate:
      "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '<end>' }}{% endfor %}" +
      "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}",
  },
);

const conversations = [
  [
    { role: 'user', content: 'who sums ?' },
    { role: 'assistant', content: 'the ranks' },
  ],
  [
    { role: 'user', content: 'all ?' },
    { role: 'assistant', content: 'all' },
  ],
];
// Labels of -100 are not learned: only the answers and what ends them are.
const samples = conversations.map((messages) => conversationSample(tokenizer, messages));
for (const row of packDocuments(samples, { contextLength: 18, padTokenId: 0 })) {
  for (const [name, { data }] of Object.entries(row)) console.log(name, data.join(' '));
}
// prints inputIds 2 5 6 1 4 3 7 8 4 2 9 1 4 3 9 4 0 0
// prints labels -100 -100 -100 -100 -100 -100 7 8 4 -100 -100 -100 -100 -100 9 4 -100 -100
// prints documents 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 2 2
// prints positionIds 0 1 2 3 4 5 6 7 8 0 1 2 3 4 5 6 0 1
