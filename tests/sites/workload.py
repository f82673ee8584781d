"""What the Python under test does: dictionaries, lists, numbers, and JSON there and back."""
import json

made = {}
for number in range(100000):
    made[str(number)] = [number, str(number) * 2, {"key": number, "value": (number, number + 1.5)}]
text = json.dumps(made)
print(len(json.loads(text)))
