import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { Automaton, type AutomatonState } from '../src/constraints/automaton.ts';
import { patternOfGrammar } from '../src/constraints/grammar.ts';
import { Engine } from '../src/engine/engine.ts';
import { openAIApp } from '../src/http/openai-app.ts';
import { useCpu } from './models.ts';

beforeAll(useCpu);

function matches(grammar: string, text: string): boolean {
  const automaton = new Automaton(patternOfGrammar(grammar));
  let state: AutomatonState | null = automaton.start;
  for (const each of text) state &&= automaton.next(state, each.codePointAt(0) ?? 0);
  return state?.accepts === true;
}

const moves = `
# Two moves of a game, such as "1. e4 e5".
root   ::= number ". " move " " move "\\n"?
number ::= [1-9] [0-9]{0,2}
move   ::= ( piece? square | "O-O" ("-O")? ) [+#]?
piece  ::= [NBRQK]
square ::= [a-h]
  [1-8]
`;

describe('A grammar', () => {
  test.each([
    [moves, '1. e4 e5', true],
    [moves, '12. Nf3 O-O-O+\n', true],
    [moves, '1. e4', false],
    [moves, '01. e4 e5', false],
    [moves, '1. e9 e5', false],
    ['root ::= "a" | "b" c | ""\nc ::= "c"+', '', true],
    ['root ::= "a" | "b" c | ""\nc ::= "c"+', 'bccc', true],
    ['root ::= "a" | "b" c | ""\nc ::= "c"+', 'b', false],
    [String.raw`root ::= "\"\\\n\x41é" . [^a-z\]]*`, '"\\\nAéx0]'.slice(0, -1), true],
    [String.raw`root ::= "\"\\\n\x41é" . [^a-z\]]*`, '"\\\nAéxa', false],
    ['root ::= "a"{2} "b"{1,} "c"{0,2}', 'aabcc', true],
    ['root ::= "a"{2} "b"{1,} "c"{0,2}', 'aabccc', false],
  ])('%j and the text %j', (grammar, text, isValid) => {
    expect(matches(grammar, text)).toBe(isValid);
  });

  test.each([
    ['root ::= root "a" | "b"', "the rule 'root', which begins with itself"],
    ['root ::= a\na ::= b | "x"\nb ::= "y"? a', "the rule 'a', which begins with itself"],
    ['root ::= "(" root ")"', "the rule 'root', which never ends"],
    ['root ::= "a" | other\nother ::= "b" other', "the rule 'other', which never ends"],
    ['root ::= other', "no rule 'other'"],
    ['start ::= "a"', "no rule 'root'"],
    ['"a"', 'before the first rule'],
    ['root ::= "a"\nroot ::= "b"', "two rules 'root'"],
    ['"x" ::= "a"', 'where the name of a rule is expected'],
    ['root ::= ("a"', 'a group that does not end'],
    ['root ::= "a")', ") in the rule 'root'"],
    ['root ::= * "a"', 'where something to repeat is expected'],
    ['root ::= "a"{3,1}', 'numbers of repetitions'],
    ['root ::= "a"{2000}', 'numbers of repetitions'],
    [String.raw`root ::= "\q"`, 'the text'],
    ['root ::= "a" $', '"$"'],
    ['root ::= [z-a]', 'a range of characters that is none'],
    [`root ::= ${'('.repeat(200)}"a"${')'.repeat(200)}`, 'too deep'],
    [`root ::= ${'"a" '.repeat(6000)}`, 'more than 5000 parts'],
  ])('%j is refused', (grammar, message) => {
    expect(() => patternOfGrammar(grammar)).toThrow(message);
  });
});

test('A grammar whose rules may be read in too many ways is refused, before it takes memory.', () => {
  const doubled = Array.from({ length: 30 }, (_, at) => `r${at} ::= r${at + 1} r${at + 1}`);
  const grammar = `root ::= r0\n${doubled.join('\n')}\nr30 ::= ""`;
  expect(() => new Automaton(patternOfGrammar(grammar))).toThrow('too many ways to continue');
});

describe('Rules that contain themselves', () => {
  const sums = `
root ::= term ("+" term)*
term ::= [0-9]+ | "(" root ")"
`;
  test.each([
    [sums, '1+(2+(33))+4', true],
    [sums, `${'('.repeat(300)}7${')'.repeat(300)}`, true],
    [sums, '1+(2+(33)', false],
    [sums, '1+(2))', false],
    ['root ::= "a" root "b" | ""', 'aaabbb', true],
    ['root ::= "a" root "b" | ""', 'aaabb', false],
    ['root ::= "a" root "a" | "b" root "b" | "c"', 'abcba', true],
    ['root ::= "a" root "a" | "b" root "b" | "c"', 'abcab', false],
  ])('%j and the text %.20s', (grammar, text, isValid) => {
    expect(matches(grammar, text)).toBe(isValid);
  });

  test('follow all texts of brackets that match, and no others', () => {
    const brackets = 'root ::= ("(" root ")" | "[" root "]")*';
    const isMatched = (text: string): boolean => {
      let rest = text;
      while (/\(\)|\[\]/.test(rest)) rest = rest.replaceAll(/\(\)|\[\]/g, '');
      return rest === '';
    };
    const letters = fc.array(fc.constantFrom('(', ')', '[', ']'), { maxLength: 8 });
    fc.assert(
      fc.property(letters, (all) => {
        const text = all.join('');
        expect(matches(brackets, text), text).toBe(isMatched(text));
      }),
      { numRuns: 300 },
    );
  });
});

test("The server answers by vLLM's structured_outputs with a grammar, and refuses one that is none.", async () => {
  const config = { vocabSize: 260, nPositions: 128, nEmbd: 16, nLayer: 1, nHead: 2 };
  const model = new GPT2LMHeadModel(config, { generator: new Generator(5) });
  const engine = new Engine(model, byteTokenizer());
  const app = openAIApp({ models: [{ id: 'small', engine, embed: null }] });
  const ask = async (grammar: string): Promise<Response> => {
    const body = {
      model: 'small',
      prompt: 'Play',
      max_tokens: 60,
      structured_outputs: { grammar },
    };
    const init = { method: 'POST', body: JSON.stringify(body) };
    return app.fetch(new Request('http://localhost/v1/completions', init));
  };
  const answer = (await (await ask(moves)).json()) as { choices: { text: string }[] };
  expect(matches(moves, answer.choices[0]?.text ?? '')).toBe(true);
  const refused = await ask('root ::= root "a" | "b"');
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({
    error: { param: 'structured_outputs', message: expect.stringContaining('begins with itself') },
  });
  await engine.dispose();
});
