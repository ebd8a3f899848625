import type { MarkdownOptions } from 'vitepress';

type Transformer = NonNullable<MarkdownOptions['codeTransformers']>[number];

/** The colours of the two themes, in the order of the themes, by the class of style.css that has them. */
const classes = new Map([
  ['#A0111F #FF9492', 'code-keyword'],
  ['#702C00 #FFB757', 'code-name'],
  ['#023B95 #91CBFF', 'code-constant'],
  ['#66707B #BDC4CC', 'code-comment'],
  ['#622CBC #DBB7FF', 'code-function'],
  ['#032563 #ADDCFF', 'code-string'],
]);
/** The colours of the block, which its words inherit. */
const plain = '#0E1116 #F0F3F6';

/**
 * Gives the words of highlighted code a class in place of their colours, which are half of the HTML of a page with
 * many signatures. A colour without a class stays as it is.
 */
export const tokenClasses: Transformer = {
  name: 'token-classes',
  span(node) {
    const style = node.properties['style'] ?? '';
    const colours = style.match(/#[\dA-F]{6}/g)?.join(' ');
    const name = colours === undefined ? undefined : classes.get(colours);
    if (name === undefined && colours !== plain) return;
    delete node.properties['style'];
    if (name !== undefined) node.properties['class'] = name;
  },
};
